"""Erased means erased: what a commit leaves behind is removed, byte by byte.

Every step can be repeated; `models.purge_due` stays set until the last one, so a crash on the way
is finished by the next opening.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unfit import disk
from unfit.data.dataset import Dataset, Raw
from unfit.errors import BadInput
from unfit.points import reach
from unfit.store.records import Times, Version
from unfit.workspace import retention
from unfit.workspace.list_format import Content
from unfit.workspace.model import load_card

if TYPE_CHECKING:
    from unfit.workspace.session import Session


def purge(
    session: "Session", timed: Callable[[], Sequence[tuple[int, float, Times]]] = tuple
) -> str | None:
    """Erase forgotten rows, their ids, names and files; the card of the version in use now.

    timed: asked at the end what the versions since the last purge took; it is written down.
    """
    store, version = session.store, session.require_version()
    begun = session.clock()
    reach("purge.start")
    dataset = session.dataset()
    gone = np.array([row for row, _ in store.forgotten.rows(erased=False)], np.int64)
    positions = dataset.positions_of(gone)
    _erase(dataset, positions)
    card_sha = _without_names(session, version, dataset)
    reach("purge.card-rewritten")
    store.purges.record(version, card_sha)
    reach("purge.recorded")
    _remove_files(session, replace(version, card_sha=card_sha))
    reach("purge.files-removed")
    store.purges.vacuum()
    reach("purge.database-vacuumed")
    store.purges.finish(timed(), begun)
    reach("purge.done")
    return card_sha


def _erase(dataset: Dataset, positions: np.ndarray) -> None:
    """Rows, their ids, and the names that nobody holds any more."""
    dataset.erase_rows(positions)
    reach("purge.rows-erased")
    dataset.erase_ids(positions)
    reach("purge.ids-erased")
    unused = dataset.unused() if len(positions) else {}
    if unused:
        dataset.drop_texts(unused)
    reach("purge.vocabulary-rewritten")


def _without_names(session: "Session", version: Version, dataset: Dataset) -> str | None:
    """The card without categories that no row holds any more; a new one if any were."""
    if version.card_sha is None:
        return None
    model = session.model
    known = model is not None and model.version.card_sha == version.card_sha
    card = model.card if known and model else load_card(version, session.artifacts)
    names = [name for name, kind in dataset.columns if kind == "category"]
    held = dict(zip(names, map(set, dataset.vocabularies), strict=True))
    encoding = card.encoding.retire(held)
    if encoding == card.encoding:
        return version.card_sha
    return session.artifacts.put_json(replace(card, encoding=encoding).to_json())


def purge_again(session: "Session") -> None:
    """Rows that the records say are forgotten and a restored folder has again."""
    dataset = session.dataset()
    rows = np.array([row for row, _ in session.store.forgotten.rows()], np.int64)
    back = dataset.positions_of(rows)
    back = back[dataset["live"][back] != 0]
    if len(back):
        _erase(dataset, back)


def kept_files(version: Version) -> set[str]:
    return {sha for sha in (version.model_sha, version.card_sha, version.statistics_sha) if sha}


def _remove_files(session: "Session", version: Version) -> None:
    session.artifacts.keep(kept_files(version))
    disk.purge_folder(session.data_folder, {version.generation} if version.generation else set())
    _purge_temporary(session)


def _purge_temporary(session: "Session") -> None:
    for path in session.folder.glob(f".*{disk.TEMPORARY}"):
        disk.remove(path)
    generation = session.data_folder
    if generation.is_dir():
        for path in generation.glob(f"*/.*{disk.TEMPORARY}"):
            disk.remove(path)


def has_strays(session: "Session") -> bool:
    """Whether a crash has left files that belong to no version."""
    version = session.require_version()
    known = {
        f"{sha}{suffix}" for sha in kept_files(version) for suffix in (".safetensors", ".json")
    }
    folder, data = session.artifacts.folder, session.data_folder
    strays = [p for p in folder.iterdir() if p.name not in known] if folder.is_dir() else []
    strays += [p for p in data.iterdir() if p.name != version.generation] if data.is_dir() else []
    strays += list(session.folder.glob(f".*{disk.TEMPORARY}"))
    strays += list(data.glob(f"*/.*{disk.TEMPORARY}"))
    if session.retained.is_dir():
        known = {
            retention.file_of(session.retained, v).name for v in session.store.versions.retained()
        }
        strays += [p for p in session.retained.iterdir() if p.name not in known]
    return bool(strays)


def purge_before_training(session: "Session") -> None:
    """A first training that crashed leaves nothing."""
    disk.purge_folder(session.artifacts.folder, set())
    disk.purge_folder(session.data_folder, set())
    _purge_temporary(session)


def listed_positions(raw: Raw, listed: Content, name: str, workspace: str) -> list[int]:
    """Rows of a source just read that the deletion list names: they never get in."""
    rows = listed.of("row")
    people = raw.subject_ids.find_all(listed.of("subject"))
    mask = np.isin(raw.subjects, [place for place in people if place is not None])
    if raw.row_ids is not None and raw.row_places is not None:
        places = [place for place in raw.row_ids.find_all(rows) if place is not None]
        mask |= np.isin(raw.row_places, places)
    elif rows and workspace not in listed.of("workspace"):
        raise BadInput(
            f"the deletion list {name} names rows by their numbers in another "
            "source; name a column with --row-id, or move the list away"
        )
    else:
        numbers = [int(value) for value in rows if value.isascii() and value.isdigit()]
        mask |= np.isin(raw.numbers, numbers)
    return np.flatnonzero(mask).tolist()
