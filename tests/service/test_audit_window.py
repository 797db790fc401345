"""The audit window on pages, in the API and in the metrics; and its end while nobody asks."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from services import Service, edit, serving, until, working
from workspaces import Kept

from unfit.clock import now
from unfit.service.auth import COOKIE, Principal
from unfit.store.schema import versions
from unfit.workspace import Workspace


def with_window(on_sqlite: Kept, tmp_path: Path, window: str) -> Kept:
    kept = on_sqlite.copy(tmp_path / "own")
    return edit(kept, ('audit_window = "none"', f'audit_window = "{window}"'))


def page(service: Service, path: str, **options: object) -> str:
    access = service.workspace.store.tokens
    token = access.by_text(service.headers["Authorization"].split()[1])
    assert token is not None
    session = access.sign_in(token, now(), timedelta(hours=1))
    answer = service.get(path, headers={"Cookie": f"{COOKIE}={session}"}, **options)
    assert answer.status_code == 200
    return " ".join(answer.text.split())


def test_rows_kept_for_audits_are_named_on_pages_and_in_the_api(
    on_sqlite: Kept, tmp_path: Path
) -> None:
    kept = with_window(on_sqlite, tmp_path, "30d")
    with kept.open() as ws:
        made = ws.forget(subjects=["p0003"], key="a")
        (request,) = ws.store.requests.find(key="a")
    assert made.kept_until is not None
    shown = f"{made.kept_until:%Y-%m-%d %H:%M:%S}"
    with serving(kept) as service:
        overview = page(service, "/")
        assert "bytes purged" not in overview
        assert f"{made.kept_rows} of them kept for audits until {shown} UTC" in overview
        erasure = page(service, f"/erasures/{request.id}")
        assert f"Kept for audits until {shown} UTC" in erasure
        assert "no bytes of the people it names are left here" not in erasure
        found = service.post("/v1/subjects/lookup", json={"subject": "p0003"}).json()
        assert found["state"] == "forgotten"
        assert found["purged"] is False
        assert datetime.fromisoformat(found["kept_for_audit_until"]) == made.kept_until
        read = service.get(f"/v1/erasures/{request.id}").json()
        assert (read["in_force"], read["purged"]) == (True, False)
        assert datetime.fromisoformat(read["kept_for_audit_until"]) == made.kept_until
        status = service.get("/v1/status").json()
        assert status["retained_rows"] == made.kept_rows
        assert status["audit_window_seconds"] == 30 * 86400
        assert datetime.fromisoformat(status["retained_until"]) == made.kept_until
        metrics = service.get("/metrics").text
        assert f"unfit_retained_rows {made.kept_rows}.0\n" in metrics
        assert "unfit_purge_due 0.0\n" in metrics


def test_a_person_whose_rows_are_kept_is_not_said_to_have_none_left(
    on_sqlite: Kept, tmp_path: Path
) -> None:
    kept = with_window(on_sqlite, tmp_path, "30d")
    with kept.open() as ws:
        ws.forget(subjects=["p0003"])
    with serving(kept) as service:
        access = service.workspace.store.tokens
        token = access.by_text(service.headers["Authorization"].split()[1])
        assert token is not None
        session = access.sign_in(token, now(), timedelta(hours=1))
        form = {"subject": "p0003", "csrf": Principal(token, session).csrf}
        cookie = {"Cookie": f"{COOKIE}={session}"}
        text = service.post("/people", data=form, headers=cookie).text
        assert "none of their rows is left" not in text
        assert "kept for audits until" in text


def test_a_window_ends_though_the_service_is_idle(on_sqlite: Kept, tmp_path: Path) -> None:
    kept = with_window(on_sqlite, tmp_path, "1h")
    earlier = datetime.now(UTC) - timedelta(hours=2)
    with Workspace(kept.folder, clock=lambda: earlier) as ws:
        made = ws.forget(subjects=["p0003"])
        ws.prepare()
    files = kept.folder / "retained"
    assert [p.name for p in files.iterdir()] == ["2.parquet"]
    with serving(kept) as service:
        metrics = service.get("/metrics").text
        assert "unfit_purge_due 1.0\n" in metrics
        assert f"unfit_retained_overdue_rows {made.kept_rows}.0\n" in metrics
        overview = page(service, "/")
        assert "should have been removed by" in overview or "No worker" in overview
        with working(kept.folder) as work:
            until(lambda: not list(files.iterdir()), "the end of the window")
            until(lambda: work.events("expired"), "a line in the log")
            assert work.events("expired")[0]["rows"] == made.kept_rows
        assert "unfit_purge_due 0.0\n" in service.get("/metrics").text


def test_a_window_that_ends_while_the_worker_waits_wakes_it(
    on_sqlite: Kept, tmp_path: Path
) -> None:
    """All is done and prepared; then time passes, and nothing else happens."""
    kept = with_window(on_sqlite, tmp_path, "30d")
    with working(kept.folder) as work, kept.open() as ws:
        ws.submit(subjects=["p0003"])
        until(lambda: ws.store.requests.counts()["applied"], "the erasure")
        until(lambda: _idle(ws), "a quiet worker")
        assert list((kept.folder / "retained").iterdir())
        with ws.store.database.writing() as connection:
            past = datetime.now(UTC) - timedelta(seconds=1)
            connection.execute(sa.update(versions).values(retained_until=past))
        until(lambda: not list((kept.folder / "retained").iterdir()), "the end of the window")
        until(lambda: work.events("expired"), "a line in the log")
        assert ws.status().retained.rows == 0


def _idle(ws: Workspace) -> bool:
    version = ws.store.versions.active()
    return (
        version is not None and bool(version.statistics_sha) and not ws.store.model.read().purge_due
    )
