"""Whether a model's constants are those of a fit on the rows that remain, and what is due if not.

Sums of the training rows are kept in memory beside the model and follow each erasure; no file holds
them, since the rows that remain say the same. Held-out rows do not count.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unfit.data.constants import Sums, lengths_of, refitted, sums_of
from unfit.data.dataset import Dataset
from unfit.data.encoding import BLOCK, Encoded, Encoding
from unfit.workspace.loaded import Loaded

SHOWN = 3  # reasons that a decision names
EARLIER = (
    "the constants on the model's card were fitted by an earlier version of unfit, which did not "
    "round them"
)


@dataclass(frozen=True)
class Changes:
    """What fitting on the rows that remain would change.

    due: why the model must be retrained, in sentences; () if it need not be. differing: the
    columns, '' for the norm bound. encoding: where nothing is due, that of the rows that remain,
    which encodes them as they are encoded now.
    """

    due: tuple[str, ...]
    differing: tuple[str, ...]
    encoding: Encoding

    @property
    def reason(self) -> str:
        more = len(self.due) - SHOWN
        return "; ".join([*self.due[:SHOWN], *([f"and {more} more"] if more > 0 else [])])


def sums_at(dataset: Dataset, positions: np.ndarray, encoding: Encoding) -> Sums:
    """Of some rows."""
    sizes = [len(texts) for texts in dataset.vocabularies]
    total = Sums.of(dataset["values"][positions], dataset["codes"][positions], sizes)
    if not encoding.norm_fitted:
        return total
    slots = encoding.slots(dataset.vocabularies)
    return replace(total, lengths=_lengths(dataset, positions, encoding, slots))


def sums_of_training_rows(dataset: Dataset, live: np.ndarray, encoding: Encoding) -> Sums:
    """Of all training rows that are there: one pass."""
    rows = list(_blocks(dataset.n_train, live))
    values, codes = dataset["values"], dataset["codes"]
    sizes = [len(texts) for texts in dataset.vocabularies]
    total = sums_of(((values[at], codes[at]) for at in rows), values.shape[1], sizes)
    if not encoding.norm_fitted:
        return total
    slots = encoding.slots(dataset.vocabularies)
    lengths: Counter[int] = Counter()
    for at in rows:
        lengths.update(_lengths(dataset, at, encoding, slots))
    return replace(total, lengths=lengths)


def _lengths(
    dataset: Dataset, at: slice | np.ndarray, encoding: Encoding, slots: list[np.ndarray]
) -> dict[int, int]:
    """As they are before the norm bound, which longer rows are cut to: from raw values."""
    return lengths_of(encoding.unbounded(dataset["values"][at], dataset["codes"][at], slots))


def _blocks(n: int, live: np.ndarray) -> Iterator[slice | np.ndarray]:
    for start in range(0, n, BLOCK):
        part = slice(start, min(start + BLOCK, n))
        yield part if live[part].all() else start + np.flatnonzero(live[part])


def kept_sums(loaded: Loaded) -> Sums:
    """Those of the loaded version; made if they are not at hand."""
    if loaded.sums is None:
        encoding = loaded.card.encoding
        loaded.sums = sums_of_training_rows(loaded.dataset, loaded.live, encoding)
    return loaded.sums


def get_ready(loaded: Loaded) -> None:
    """Make the sums ahead of the next erasure."""
    if loaded.card.encoding.min_rows is not None:
        kept_sums(loaded)


def changes(loaded: Loaded, positions: np.ndarray) -> Changes:
    """What it means for the constants that rows leave, of either part."""
    encoding = loaded.card.encoding
    if encoding.min_rows is None:
        return Changes((EARLIER,), tuple(c.column.name for c in _fitted(encoding)), encoding)
    if loaded.foreseen is not None and loaded.foreseen[0] is positions:  # asked more than once
        return loaded.foreseen[1]
    leaving = positions[positions < loaded.dataset.n_train]
    total = kept_sums(loaded) - sums_at(loaded.dataset, leaving, encoding)
    live = loaded.live.copy()
    live[positions] = False
    found = compare(encoding, loaded.dataset, live, total)
    loaded.foreseen = positions, found
    return found


def differing(loaded: Loaded) -> tuple[str, ...]:
    """For an audit: columns whose constants are not those of a fit on the raw values that remain,
    all of which are read again; '' stands for the norm bound."""
    encoding = loaded.card.encoding
    if encoding.min_rows is None:
        return tuple(c.column.name for c in _fitted(encoding))
    total = sums_of_training_rows(loaded.dataset, loaded.live, encoding)
    return compare(encoding, loaded.dataset, loaded.live, total).differing


def without(loaded: Loaded, leaving: np.ndarray) -> None:
    """The sums follow an erasure; before the rows are zeroed."""
    if loaded.sums is not None:
        gone = sums_at(loaded.dataset, leaving, loaded.card.encoding)
        loaded.sums = loaded.sums - gone
    loaded.foreseen = None


def _fitted(encoding: Encoding) -> list[Encoded]:
    return [c for c in encoding.columns if c.constants == "fitted"]


def compare(encoding: Encoding, dataset: Dataset, live: np.ndarray, total: Sums) -> Changes:
    """An encoding with the one that sums of the training rows give; live: rows of either part."""
    fresh = refitted(encoding, dataset.vocabularies, total)
    due: list[str] = []
    columns: list[str] = []
    made: list[Encoded] = []
    a = b = 0
    for old, new in zip(encoding.columns, fresh.columns, strict=True):
        if old.column.kind == "category":
            said, one = _categories(old, new, dataset, live, b, total, encoding.min_rows or 1)
            b += 1
        else:
            said, one = _numbers(old, new, dataset, live, a)
            a += 1
        due += said
        columns += [old.column.name] * (bool(said) or one != old)
        made.append(one)
    if fresh.norm != encoding.norm:
        due.append("the bound on the length of a row changed after rounding")
        columns.append("")
    kept = encoding if due else replace(encoding, columns=tuple(made))
    return Changes(tuple(due), tuple(columns), kept)


def _numbers(
    old: Encoded, new: Encoded, dataset: Dataset, live: np.ndarray, at: int
) -> tuple[list[str], Encoded]:
    name = old.column.name
    changed = [what for what, before, after in (
        ("mean", old.shift, new.shift), ("deviation", old.scale, new.scale)
    ) if before != after]  # fmt: skip
    if changed:
        return [f"the {' and the '.join(changed)} of column {name!r} changed after rounding"], old
    if old.fill != new.fill and _any(np.isnan, dataset["values"], live, at):
        said = f"what stands for a missing value of column {name!r} changed after rounding"
        return [said], old
    return [], replace(old, fill=new.fill, constants=new.constants)


def _categories(
    old: Encoded, new: Encoded, dataset: Dataset, live: np.ndarray, at: int, total: Sums,
    min_rows: int,
) -> tuple[list[str], Encoded]:  # fmt: skip
    """A name that no row holds any more goes, and its place stays: its column is all zeros."""
    if old.constants == "declared":
        return [], replace(old, others=new.others)
    before = {t for t in old.categories if t is not None}
    after = {t for t in new.categories if t is not None}
    name, lost = old.column.name, before - after
    texts = dataset.vocabularies[at]
    codes = [code for code, text in enumerate(texts) if text in lost] if lost else []
    if after - before:
        return [f"the choice of the categories of column {name!r} changed"], old
    if codes and _any(lambda found: np.isin(found, codes), dataset["codes"], live, at):
        if any(total.categories[at][code] >= min_rows for code in codes):
            return [f"the choice of the categories of column {name!r} changed"], old
        said = f"a category of column {name!r} is held by fewer than {min_rows} training rows"
        return [said], old
    retired = tuple(t if t in after else None for t in old.categories)
    return [], replace(old, categories=retired, others=new.others)


def _any(
    test: Callable[[np.ndarray], np.ndarray], array: np.ndarray, live: np.ndarray, column: int
) -> bool:
    """Whether a value of a live row, training or held-out, passes a test."""
    return any(bool(test(array[at, column]).any()) for at in _blocks(len(live), live))


def verdict(columns: Sequence[str]) -> str:
    """What an audit says of columns that differ."""
    named = ["the norm bound" if name == "" else f"column {name!r}" for name in columns]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return (
        f"not forgotten: the constants of {', '.join(named[:SHOWN])}{more} are not those of a fit "
        "on the rows that remain; run `unfit retrain`"
    )
