"""A request that is cancelled while it is worked on is not applied, now or later."""

from pathlib import Path

import pytest
from workspaces import Kept

from unfit import points
from unfit.errors import Unavailable


def test_who_is_cancelled_at_the_last_moment_is_remembered(
    trained: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = trained.copy(tmp_path / "own")
    with kept.open() as ws, kept.open() as elsewhere:
        ws.submit(subjects=["p0003"], key="cancelled")
        ws.submit(subjects=["p0017"], key="meant")
        (request,) = ws.store.requests.find(key="cancelled")

        def cancel(point: str) -> None:
            if point == "forget.unlearned":
                monkeypatch.setattr(points, "observer", None)
                elsewhere.store.requests.cancel(request.id, elsewhere._session.clock())

        monkeypatch.setattr(points, "observer", cancel)
        with pytest.raises(Unavailable, match="meanwhile"):
            ws.apply()
        assert "p0003" not in ws.list_path.read_text()
    for _ in range(2):  # and after a restart
        with kept.open() as ws:
            ws.apply()
            assert ws.store.requests.counts() == {
                "pending": 0,
                "applied": 1,
                "unmatched": 0,
                "cancelled": 1,
            }
            with ws.session() as session:
                assert session.dataset().subject_rows("p0003") is not None
                assert session.dataset().subject_rows("p0017") is None
            assert "p0003" not in ws.list_path.read_text()
            assert "p0017" in ws.list_path.read_text()
