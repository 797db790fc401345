"""Public data sets by name: `load("mnist-b")` gives rows as the paper prepared them.

Files come from the folder UNFIT_DATA, from the cache, or from where they are public; rows are
prepared once and mapped from then on. To add one, `register` an `Entry`.
"""

from unfit.data.catalog import prepared
from unfit.data.catalog.entries import ALL
from unfit.data.catalog.entry import Entry, File, FileSet, Parts, Prepared, RawArrays, Training
from unfit.errors import BadInput
from unfit.progress import ProgressCallback

CATALOG: dict[str, Entry] = {}


def register(entry: Entry) -> Entry:
    """Add a data set to the catalogue."""
    if not entry.name or not all(c.isalnum() or c in "-_" for c in entry.name):
        raise BadInput(f"{entry.name!r} is not a valid name: use letters, digits, - and _")
    if entry.name in CATALOG:
        raise BadInput(f"the catalogue has a data set {entry.name!r} already")
    CATALOG[entry.name] = entry
    return entry


for _entry in ALL:
    register(_entry)


def names() -> list[str]:
    return list(CATALOG)


def find(name: str) -> Entry:
    if name not in CATALOG:
        raise BadInput(f"there is no data set {name!r}; there are {', '.join(names())}")
    return CATALOG[name]


def load(name: str, progress: ProgressCallback | None = None) -> Prepared:
    """The rows of a data set."""
    return prepared.prepare(find(name), progress)


__all__ = [
    "CATALOG",
    "Entry",
    "File",
    "FileSet",
    "Parts",
    "Prepared",
    "RawArrays",
    "Training",
    "find",
    "load",
    "names",
    "register",
]
