"""Purge: what a commit leaves behind is removed, byte by byte.

That is the rows and ids of the forgotten, names that nobody holds any more, superseded files, and
what the database still holds of all this. Every step can be repeated, and `models.purge_due` stays
set until the last one, so that a crash on the way is finished by whoever opens the workspace next.
"""

import logging
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from unfit import disk
from unfit.data.dataset import Dataset
from unfit.errors import LostLock, Unavailable
from unfit.points import reach
from unfit.store.records import Version
from unfit.workspace.model import load_card
from unfit.workspace.session import Session

log = logging.getLogger("unfit")


def after_commit(session: Session) -> None:
    """Purge at once, unless the session leaves it to a later call of `purge`."""
    if not session.schedule.deferred:
        purge(session)


def purge(session: Session) -> None:
    """Purge what is due. What cannot be removed now is removed by the next call."""
    started = time.perf_counter()
    session.retention.purge_expired()
    try:
        card_sha = _purge(session, session.require_version(), started)
    except LostLock:
        raise
    except (Unavailable, OSError) as busy:
        log.warning("the purge goes on later: %s", busy)
        session.purged = False
        return
    session.finish_purge(card_sha)


def _purge(session: Session, version: Version, started: float) -> str | None:
    """All steps; the card of the active version, which may be a new one."""
    store = session.store
    begun_at = session.clock()
    reach("purge.start")
    dataset = session.dataset()
    gone = np.array([row for row, _ in store.forgotten.rows(erased=False)], np.int64)
    positions = dataset.positions_of(gone)
    _purge_rows(dataset, positions)
    if session.model is not None and session.model.dataset is dataset:
        session.model.data.erase(session.model.training_rows(positions))
    card_sha = _purge_card(session, version, dataset)
    reach("purge.card-rewritten")
    removed = store.purges.record(version, card_sha)
    reach("purge.recorded")
    changed = _purge_files(session, replace(version, card_sha=card_sha))
    reach("purge.files-removed")
    store.purges.vacuum(removed.texts if session.knows_all_removed(removed) else None)
    disk.sync_all(changed)  # most of it has come to the disk with the database by now
    session.vacuumed(removed)
    reach("purge.database-vacuumed")
    store.purges.finish(session.times_to_record(time.perf_counter() - started), begun_at)
    reach("purge.done")
    return card_sha


def _purge_rows(dataset: Dataset, positions: np.ndarray, *, restored: bool = False) -> None:
    """Zero rows and their ids, and remove the names that nobody holds any more."""
    dataset.purge_rows(positions, restored=restored)
    reach("purge.rows-erased")
    dataset.purge_ids(positions)
    dataset.sync_purged()
    reach("purge.ids-erased")
    unused = dataset.unused() if len(positions) else {}
    if unused:
        dataset.purge_texts(unused)
    reach("purge.vocabulary-rewritten")


def _purge_card(session: Session, version: Version, dataset: Dataset) -> str | None:
    """Remove the categories that no row holds any more from the card; a new card if there were."""
    if version.card_sha is None:
        return None
    model = session.model
    same = model is not None and model.version_id == version.id
    card = model.card if same and model else load_card(version, session.artifacts)
    names = [name for name, kind in dataset.columns if kind == "category"]
    held = dict(zip(names, map(set, dataset.vocabularies), strict=True))
    encoding = card.encoding.purge_names(held)
    if encoding == card.encoding:
        return version.card_sha
    return session.artifacts.put_json(replace(card, encoding=encoding).to_json())


def purge_restored_rows(session: Session) -> None:
    """Zero rows that the records say are forgotten, and that a restored folder has again."""
    dataset = session.dataset()
    rows = np.array([row for row, _ in session.store.forgotten.rows()], np.int64)
    back = dataset.positions_of(rows)
    back = back[dataset["live"][back] != 0]
    if len(back):
        _purge_rows(dataset, back, restored=True)


def _files_of(version: Version) -> set[str]:
    """The hashes of the artifacts that a version stands on."""
    return {sha for sha in (version.model_sha, version.card_sha, version.statistics_sha) if sha}


def _purge_files(session: Session, version: Version) -> list[Path]:
    """Remove the files of other versions; the folders that are to be synced."""
    layout, changed = session.layout, []
    if session.artifacts.keep(_files_of(version)):
        changed.append(layout.artifacts)
    kept = {version.generation} if version.generation else set()
    if disk.purge_folder(layout.data, kept, sync=False):
        changed.append(layout.data)
    _purge_temporary(session)
    return changed


def _purge_temporary(session: Session) -> None:
    for path in session.layout.temporary():
        disk.remove(path)


def has_strays(session: Session) -> bool:
    """Whether a crash has left files that belong to no version."""
    version, layout = session.require_version(), session.layout
    artifacts = {
        f"{sha}{suffix}" for sha in _files_of(version) for suffix in (".safetensors", ".json")
    }
    return (
        _holds_others(layout.artifacts, artifacts)
        or _holds_others(layout.data, {version.generation or ""})
        or any(layout.temporary())
        or session.retention.has_strays()
    )


def _holds_others(folder: Path, names: set[str]) -> bool:
    return folder.is_dir() and any(path.name not in names for path in folder.iterdir())


def purge_before_training(session: Session) -> None:
    """Remove all that a first training may have left when it crashed."""
    disk.purge_folder(session.layout.artifacts, set())
    disk.purge_folder(session.layout.data, set())
    _purge_temporary(session)
