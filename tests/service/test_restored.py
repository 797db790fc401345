"""A backup restored, and a deletion list lost, under a service that runs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from services import Service, bearer, rows, serving, token, until, working
from workspaces import Kept, remembers

from unfit.clock import now


class Backup:
    """A copy of a workspace and its database, taken and put back while others look on."""

    def __init__(self, kept: Kept) -> None:
        self._kept, self._at = kept, kept.folder.parent / "backup"
        if kept.database is not None:
            self._connections("false")
            self._copy = kept.database.database(kept.name or "")
            self._connections("true")
        else:  # what is in the log goes into the file
            with kept.open() as ws:
                ws.store.purges.vacuum()
        shutil.copytree(kept.folder, self._at)

    def restore(self) -> None:
        """As docs/operations.md has it: put beside, and swapped."""
        kept = self._kept
        if kept.database is not None:
            self._connections("false")
            kept.database.run(f"ALTER DATABASE {kept.name} RENAME TO {kept.name}_gone")
            kept.database.run(f"ALTER DATABASE {self._copy} RENAME TO {kept.name}")
        kept.folder.rename(kept.folder.with_name("gone"))
        self._at.rename(kept.folder)

    def _connections(self, allowed: str) -> None:
        """Allowed, or ended and refused: neither a copy nor another name is made under any."""
        assert self._kept.database is not None
        self._kept.database.run(f"ALTER DATABASE {self._kept.name} ALLOW_CONNECTIONS {allowed}")
        self._kept.database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = '{self._kept.name}'"
        )


def predict(service: Service, **options: Any) -> Any:
    return service.post("/v1/predictions", json={"rows": rows()}, **options)


def erase(service: Service, *people: str) -> None:
    for person in people:
        filed = service.post("/v1/erasures", json={"subjects": [person]}).json()["id"]
        until(lambda n=filed: service.get(f"/v1/erasures/{n}").json()["in_force"], "the erasure")


def test_predictions_come_from_what_was_restored_and_the_forgotten_stay_forgotten(
    service: Service,
) -> None:
    kept = service.kept
    backup = Backup(kept)
    assert predict(service).json()["version"] == 1
    with working(kept.folder):
        erase(service, "p0003", "p0004", "p0007")
    assert predict(service).json()["version"] > 2
    backup.restore()
    answer = predict(service)  # nobody has caught up with the list yet
    assert answer.status_code == 503
    assert "being forgotten" in answer.json()["detail"]
    with working(kept.folder):
        found = until(lambda: _answered(service), "the list to be caught up with")
    assert found["version"] == 2  # of the new line: all three at once
    for person in ("p0003", "p0004", "p0007"):
        assert not remembers(service.workspace, person)
        found = service.post("/v1/subjects/lookup", json={"subject": person}).json()
        assert found["state"] == "forgotten"


def _answered(service: Service) -> Any:
    answer = predict(service)
    return answer.json() if answer.status_code == 200 else None


def test_a_worker_goes_on_with_what_was_restored(service: Service) -> None:
    kept = service.kept
    with working(kept.folder):
        backup = Backup(kept)
        erase(service, "p0003", "p0004")
        backup.restore()
        until(lambda: _answered(service), "the list to be caught up with")
        erase(service, "p0007")
    with kept.open() as ws:
        assert not any(remembers(ws, p) for p in ("p0003", "p0004", "p0007"))
        assert ws.caught_up()
        gone = [row for row, _ in ws.store.forgotten.rows()]
        assert len(gone) == len(set(gone))


def test_a_token_revoked_after_a_restore_is_refused_at_once(service: Service) -> None:
    kept = service.kept
    backup = Backup(kept)
    text = token(kept.folder, "predict")  # not in the backup
    for _ in range(6):  # counts that would be far ahead of the backup's
        token(kept.folder, "audit")
    assert predict(service, headers=bearer(text)).status_code == 200
    backup.restore()
    assert predict(service, headers=bearer(text)).status_code == 401
    text = token(kept.folder, "predict")
    assert predict(service, headers=bearer(text)).status_code == 200
    with kept.open() as ws:
        ws.store.tokens.revoke(text.split("_")[1], now())
    assert predict(service, headers=bearer(text)).status_code == 401


def cut(listed: Path) -> None:
    listed.write_bytes(b"".join(listed.read_bytes().splitlines(keepends=True)[:-1]))


def edit(listed: Path) -> None:
    listed.write_bytes(listed.read_bytes().replace(b'"workspace"', b'"Workspace"'))


@pytest.mark.parametrize(
    ("harm", "said"), [(cut, "was cut"), (edit, "was edited"), (Path.unlink, "is gone")]
)
def test_a_list_that_is_lost_under_a_running_service_stops_its_predictions(
    harm: Callable[[Path], None], said: str, on_sqlite: Kept, tmp_path: Path
) -> None:
    with serving(on_sqlite.copy(tmp_path / "own")) as service:
        assert predict(service).status_code == 200
        listed, copy = service.workspace.list_path, tmp_path / "copy"
        shutil.copy(listed, copy)
        harm(listed)
        for _ in range(2):
            answer = predict(service)
            assert answer.status_code == 503
            assert said in answer.json()["detail"]
            assert "newest copy" in answer.json()["detail"]
        assert service.get("/health/ready").status_code == 503
        shutil.copy(copy, listed)
        assert predict(service).status_code == 200


def test_lines_of_others_are_erasures_under_way_to_who_runs_and_awaited_by_who_starts(
    on_sqlite: Kept, tmp_path: Path
) -> None:
    kept = on_sqlite.copy(tmp_path / "own")
    with serving(kept) as service:
        assert predict(service).status_code == 200
        listed = service.workspace.deletions
        known = listed.read().position
        assert known is not None
        listed.append([("subject", "p0003")], known)
        assert predict(service).status_code == 200
        with serving(kept) as fresh:
            assert predict(fresh).status_code == 503
            with working(kept.folder):
                until(lambda: predict(fresh).status_code == 200, "the list to be caught up with")
        assert not remembers(service.workspace, "p0003")
        assert predict(service).json()["version"] == 2
