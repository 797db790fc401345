"""Deleted rows that are kept for audits: how many, until when, and their removal in time.

Each version that rows left with has its file of them, as long as its `retained_until` says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from unfit import disk
from unfit.points import reach
from unfit.store.records import Version
from unfit.store.store import Store


@dataclass(frozen=True)
class Retained:
    """What is kept just now. until: when the last of it leaves; overdue: should have left."""

    rows: int = 0
    until: datetime | None = None
    overdue_rows: int = 0
    overdue_since: datetime | None = None


def file_of(folder: Path, version: Version) -> Path:
    return folder / f"{version.number}.parquet"


def retained(folder: Path, store: Store, now: datetime, window: timedelta) -> Retained:
    """What is kept. window: as the workspace is set now; none: nothing may be kept any more."""
    kept = [v for v in store.versions.retained() if file_of(folder, v).exists()]
    late = _due(kept, now, window)
    moments = [v.retained_until for v in kept if v.retained_until is not None]
    since = [v.retained_until for v in late if v.retained_until is not None]
    return Retained(
        rows=sum(v.deleted for v in kept), until=max(moments, default=None),
        overdue_rows=sum(v.deleted for v in late), overdue_since=min(since, default=None),
    )  # fmt: skip


def purge_expired(folder: Path, store: Store, now: datetime, window: timedelta) -> int:
    """Remove what has been kept long enough; how many rows. Needs no lock: it touches nothing but
    files of versions that are in the records."""
    late = _due(store.versions.retained(), now, window)
    for version in late:
        disk.remove(file_of(folder, version))
    if late:
        if folder.is_dir():
            disk.sync_folder(folder)
        reach("retained.removed")
        store.versions.end_retention([v.id for v in late])
    return sum(v.deleted for v in late)


def purge_strays(folder: Path, store: Store) -> None:
    """Remove what no version stands behind. The writer's lock is held."""
    if folder.is_dir() and any(folder.iterdir()):
        disk.purge_folder(folder, {file_of(folder, v).name for v in store.versions.retained()})


def _due(versions: Sequence[Version], now: datetime, window: timedelta) -> list[Version]:
    return [
        v
        for v in versions
        if not window or (v.retained_until is not None and v.retained_until <= now)
    ]
