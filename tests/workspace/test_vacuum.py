"""The database is searched for what was removed, and rewritten where that is not enough."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from workspaces import make

from unfit.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with make(tmp_path / "w", None).open() as ws:
        yield ws


@contextmanager
def statements(ws: Workspace) -> Iterator[list[str]]:
    """Every statement that SQLite runs for this process, while the block does."""
    seen: list[str] = []
    engine = ws.store.database.engine
    engine.dispose()

    def traced(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_trace_callback(seen.append)

    sa.event.listen(engine, "checkout", traced)
    try:
        yield seen
    finally:
        sa.event.remove(engine, "checkout", traced)
        engine.dispose()


def vacuums(seen: list[str]) -> int:
    return seen.count("VACUUM")


def on_disk(ws: Workspace) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(ws.folder.glob("unfit.db*")))


def test_a_session_rewrites_the_database_once_and_searches_it_then(workspace: Workspace) -> None:
    found = []
    with statements(workspace) as seen:
        for i in range(1, 8):
            seen.clear()
            before = workspace.store.versions.active()
            assert before is not None
            assert before.model_sha is not None
            workspace.forget(subjects=[f"p{i:04d}"])
            found.append(vacuums(seen))
            content = on_disk(workspace)
            assert f"p{i:04d}".encode() not in content
            assert before.model_sha.encode() not in content
    assert found == [1, 0, 0, 0, 0, 0, 0]


def test_a_copy_in_a_free_page_is_found_and_removed(workspace: Workspace) -> None:
    workspace.forget(subjects=["p0001"])
    other = sqlite3.connect(workspace.folder / "unfit.db", isolation_level=None)
    other.execute("PRAGMA secure_delete=OFF")
    other.execute("CREATE TABLE copies (value TEXT)")
    other.executemany("INSERT INTO copies VALUES (?)", [("p0002",)] * 2000)
    other.execute("DROP TABLE copies")
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    other.close()
    assert b"p0002" in on_disk(workspace)
    with statements(workspace) as seen:
        assert workspace.forget(subjects=["p0002"]).purged
        assert vacuums(seen) == 1
    assert b"p0002" not in on_disk(workspace)


def test_what_others_remove_is_not_searched_for_but_rewritten(workspace: Workspace) -> None:
    workspace.forget(subjects=["p0001"])
    workspace.submit(subjects=["p0005"], key="mind")
    (request,) = workspace.store.requests.find(state="pending")
    with Workspace(workspace.folder) as other:
        other.store.requests.cancel(request.id, workspace._session.clock())
    with statements(workspace) as seen:
        workspace.forget(subjects=["p0002"])
        assert vacuums(seen) >= 1
    assert b"p0005" not in on_disk(workspace)


@pytest.mark.parametrize("count", [1, 70])
def test_ids_that_are_short_or_many_are_rewritten(tmp_path: Path, count: int) -> None:
    row_id = None if count == 1 else "record"
    with make(tmp_path / "w", None, row_id=row_id).open() as ws:
        ws.forget(subjects=["p0001"])
        with statements(ws) as seen:
            if count == 1:
                ws.forget(rows=["7"])  # a number of a row, which is found in any file
            else:
                ws.forget(subjects=[f"p{i:04d}" for i in range(10, 10 + count)])
            assert vacuums(seen) == 1
