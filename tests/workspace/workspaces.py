"""Workspaces for tests that can be copied, database and deletion list and all."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

import people
import servers
from unfit.data.dataset import Dataset
from unfit.store.schema import models
from unfit.workspace import Workspace, init


@dataclass(frozen=True)
class Kept:
    """A workspace that can be copied, database and deletion list and all."""

    folder: Path
    database: servers.Server | None
    name: str | None

    def copy(self, to: Path) -> "Kept":
        to.mkdir(parents=True)
        shutil.copytree(self.folder.parent, to, dirs_exist_ok=True)
        folder = to / self.folder.name
        name = None
        if self.database is not None and self.name is not None:
            name = self.database.database(self.name)
            toml = folder / "unfit.toml"
            toml.write_text(toml.read_text().replace(self.name, name))
        return Kept(folder, self.database, name)

    def open(self) -> Workspace:
        return Workspace(self.folder)


_MADE: dict[object, Kept] = {}
_SHELF = tempfile.TemporaryDirectory(prefix="unfit-workspaces-")


def make(
    at: Path,
    database: servers.Server | None,
    *,
    trained: bool = True,
    table: pa.Table | None = None,
    edit: Callable[[str], str] | None = None,
    copied: bool = True,
    **options: object,
) -> Kept:
    """A workspace of people, with fixed randomness.

    edit: changes the text of unfit.toml before training. Of workspaces that are alike, one is
    trained and the others are copies of it, unless they are edited or copied is False.
    """
    table = people.people() if table is None else table
    if edit is not None or not trained or not copied:
        return _made(at, database, table, trained, edit, options)
    key = (database and database.folder, _digest(table), repr(sorted(options.items())))
    if key not in _MADE:
        shelf = Path(_SHELF.name) / str(len(_MADE))
        _MADE[key] = _made(shelf, database, table, trained, edit, options)
    return _MADE[key].copy(at)


def _made(
    at: Path,
    database: servers.Server | None,
    table: pa.Table,
    trained: bool,
    edit: Callable[[str], str] | None,
    options: Mapping[str, object],
) -> Kept:
    at.mkdir(parents=True)
    source = people.write(table, at / "people.parquet")
    name = None if database is None else database.database()
    store = "sqlite" if database is None or name is None else database.url(name)
    chosen = {
        "label": "label",
        "subject": "person",
        "row_id": "record",
        "random_state": 0,
        "threshold": 50.0,
        "store": store,
    }
    init(source, at / "ws", **(chosen | options))
    toml = at / "ws" / "unfit.toml"
    text = toml.read_text().replace("min_rows = 10", "min_rows = 1 ")
    # forty people are a tenth of these tables: by the default policy half the tests would retrain
    text = text.replace('["distance", "log_loss", "disparity"]', '["disparity"]')
    toml.write_text(text if edit is None else edit(text))
    if trained:
        with Workspace(at / "ws") as ws:
            ws.train()
            ws.prepare()
    return Kept(at / "ws", database, name)


def _digest(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def as_before(kept: Kept) -> None:
    """Give a workspace's deletion list and what is known of it the form of the first release."""
    with kept.open() as ws:
        entries = [e for e in ws.deletions.read().entries if e[0] != "key"]
        lines = "".join(f"{json.dumps({kind: value})}\n" for kind, value in entries)
        ws.list_path.write_text(lines)
        with ws.store.database.writing() as connection:
            earlier = {"list_known": None, "key_fingerprint": None, "list_position": len(lines)}
            connection.execute(sa.update(models).values(**earlier))


def remembers(ws: Workspace, subject: str) -> bool:
    """Whether somebody has rows in a workspace, as they lie there."""
    version = ws.store.versions.active()
    assert version is not None
    assert version.generation is not None
    dataset = Dataset(ws.layout.generation(version.generation))
    rows = dataset.subject_rows(subject)
    gone = {row for row, _ in ws.store.forgotten.rows()}
    return rows is not None and not gone.issuperset(dataset["numbers"][rows].tolist())


def signature(ws: Workspace) -> dict:
    """All that a crash might harm: the active version, rows, requests, files."""
    session = ws._session
    version = session.store.versions.active()
    live: list[int] = []
    if version is not None and version.generation is not None:
        dataset = Dataset(ws.layout.generation(version.generation))
        live = dataset["numbers"][dataset.live].tolist()

    listed = session.deletions.read().ids if session.deletions.exists() else []

    def names(folder: Path) -> list[str]:
        return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []

    return {
        "active": version and (version.number, version.kind, version.model_sha, version.subjects),
        "card": version and version.card_sha,
        "live": live,
        "forgotten": session.store.forgotten.rows(),
        "requests": [
            (r.key, r.state, [(i.kind, i.value, i.outcome, i.rows) for i in r.items])
            for r in session.store.requests.find()
        ],
        "decisions": [(d.version, d.action, d.reason) for d in session.store.decisions.find()],
        "artifacts": names(ws.layout.artifacts),
        "data": names(ws.layout.data),
        "retained": names(ws.layout.retained),
        "list": list(dict.fromkeys(listed)),
        "purge_due": session.store.model.read().purge_due,
    }
