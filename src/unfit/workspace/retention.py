"""Deleted rows that are kept for audits: written with a version, and removed in time.

Each version that rows left with has a file of them, for as long as its `retained_until` says. They
are kept as they came, so that they can be encoded for whatever model is active later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from unfit import disk
from unfit.points import reach
from unfit.store.records import Version
from unfit.store.store import Store
from unfit.workspace.layout import Layout

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from unfit.data.dataset import Dataset

LABEL = "__label__"  # the column of labels; unfit.toml allows no feature of that name


@dataclass(frozen=True, kw_only=True)
class Retained:
    """What is kept now. until: when the last of it leaves; overdue: what should have left."""

    rows: int = 0
    until: datetime | None = None
    overdue_rows: int = 0
    overdue_since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Retention:
    """The retained rows of one workspace. window: how long rows are kept; zero: not at all."""

    layout: Layout
    store: Store
    clock: Callable[[], datetime]
    window: timedelta

    def retain(self, number: int, dataset: "Dataset", positions: "np.ndarray") -> datetime | None:
        """Keep rows that leave with version `number`; until when, or None if they are not kept."""
        if not self.window:
            return None
        from pyarrow import parquet

        disk.private_folder(self.layout.retained)
        with disk.replacing(self.layout.retained_rows(number)) as file:
            parquet.write_table(_table(dataset, positions), file)
        return self.clock() + self.window

    def status(self) -> Retained:
        """How many rows are kept, and how many are overdue."""
        kept = [
            v
            for v in self.store.versions.retained()
            if self.layout.retained_rows(v.number).exists()
        ]
        late = self._expired(kept)
        return Retained(
            rows=sum(v.deleted for v in kept),
            until=max(_ends(kept), default=None),
            overdue_rows=sum(v.deleted for v in late),
            overdue_since=min(_ends(late), default=None),
        )

    def purge_expired(self) -> int:
        """Remove the rows whose time is over; how many. This needs no lock, because it touches only
        the files of versions that are in the records."""
        late = self._expired(self.store.versions.retained())
        for version in late:
            disk.remove(self.layout.retained_rows(version.number))
        if late:
            if self.layout.retained.is_dir():
                disk.sync_folder(self.layout.retained)
            reach("retained.removed")
            self.store.versions.end_retention([v.id for v in late])
        return sum(v.deleted for v in late)

    def has_strays(self) -> bool:
        """Whether there is a file that belongs to no version."""
        folder = self.layout.retained
        return folder.is_dir() and any(p.name not in self._names() for p in folder.iterdir())

    def purge_strays(self) -> None:
        """Remove the files that belong to no version. The writer's lock is held."""
        folder = self.layout.retained
        if folder.is_dir() and any(folder.iterdir()):
            disk.purge_folder(folder, self._names())

    def _names(self) -> set[str]:
        return {self.layout.retained_rows(v.number).name for v in self.store.versions.retained()}

    def _expired(self, versions: Sequence[Version]) -> list[Version]:
        """Those whose time is over; all of them where the workspace keeps nothing any more."""
        now = self.clock()
        return [
            v
            for v in versions
            if not self.window or (v.retained_until is not None and v.retained_until <= now)
        ]


def _ends(versions: Sequence[Version]) -> list[datetime]:
    return [v.retained_until for v in versions if v.retained_until is not None]


def _table(dataset: "Dataset", positions: "np.ndarray") -> "pa.Table":
    """Rows as they came: numbers, category names, pairs, and the label."""
    import numpy as np
    import pyarrow as pa

    from unfit.data.bags import as_maps, one_of
    from unfit.data.columns import BAGS

    columns: dict[str, pa.Array] = {}
    raw = dataset.raw_rows(positions)
    a = b = bag = 0
    for name, kind in dataset.columns:
        if kind == "category":
            texts = np.array([t or "" for t in dataset.vocabularies[b]], object)
            columns[name] = pa.array(texts[raw.codes[:, b]].tolist(), pa.string())
            b += 1
        elif kind in BAGS and raw.bags is not None:
            columns[name] = as_maps(one_of(raw.bags, dataset.widths, bag))
            bag += 1
        else:
            columns[name] = pa.array(raw.values[:, a], from_pandas=True)
            a += 1
    labels = np.array([t or "" for t in dataset.label_texts], object)
    columns[LABEL] = pa.array(labels[dataset["labels"][positions]].tolist(), pa.string())
    return pa.table(columns)
