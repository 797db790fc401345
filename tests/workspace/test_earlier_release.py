"""Workspaces made by unfit 0.1.0 open with their history, and everything works on them.

`earlier/` holds two of them, packed: 80 people; p0003, p0017, row r00009 and p0020 were forgotten,
with a retraining before the last; then an audit; the request to forget p0021 waits.
"""

import json
import tarfile
from pathlib import Path

import pytest
from workspaces import remembers

import people
from unfit.clock import now
from unfit.workspace import Workspace

EARLIER = Path(__file__).parent / "earlier"


@pytest.fixture(params=["fisher", "deltagrad"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(EARLIER / f"workspace-0.1.0-{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "ws"


def test_its_history_is_there(earlier: Path) -> None:
    with Workspace(earlier) as ws:
        versions = ws.store.versions.find()
        assert sorted(v.number for v in versions) == [1, 2, 3, 4, 5]
        assert {v.number: v.kind for v in versions}[4] == "retrained"
        states = {r.key: r.state for r in ws.store.requests.find()}
        assert [states[key] for key in ("first", "second", "third")] == ["applied"] * 3
        assert states["waiting"] == "pending"
        assert len(ws.store.decisions.find()) >= 3
        assert len(ws.store.audits.find()) == 1
        active = ws.status().version
        assert active is not None
        assert active.number == 5


def test_it_predicts_as_it_did(earlier: Path) -> None:
    """`predictions.json` holds what 0.1.0 answered."""
    table = people.people(n=160, subjects=80).select(list(people.COLUMNS))
    with Workspace(earlier) as ws:
        (waiting,) = ws.store.requests.find(state="pending")
        ws.store.requests.cancel(waiting.id, now())  # or it would be applied first
        answer = ws.predict(table)
        method = ws.status().method
    expected = json.loads((EARLIER / "predictions.json").read_text())[method]
    assert answer.table is not None
    assert answer.table["p_yes"].to_pylist() == pytest.approx(expected, abs=2e-5)


def test_forgetting_goes_on(earlier: Path) -> None:
    with Workspace(earlier) as ws:
        assert remembers(ws, "p0021")
        ws.forget(subjects=["p0030"], key="fourth")
        assert not remembers(ws, "p0021")
        assert not remembers(ws, "p0030")
        states = {r.key: r.state for r in ws.store.requests.find()}
        assert states["waiting"] == states["fourth"] == "applied"
        again = ws.forget(subjects=["p0003"], key="fifth")
        assert again.rows == 0  # forgotten long ago, and that is still known
        audit = ws.audit()
        assert not audit.verdict.startswith("not forgotten")
