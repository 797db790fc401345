"""Whether a model's constants are those of a fit on the rows that remain, and what is due if not.

The sums that constants are made of are kept in memory beside the model and follow each erasure. No
file holds them, because the rows that remain say the same. Held-out rows do not count.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unfit.core.class_weights import balanced_weights, named_weights
from unfit.data.categories import Choices
from unfit.data.columns import BAGS
from unfit.data.constants import Sizes, Sums, lengths_of, refitted, sums_of
from unfit.data.dataset import Dataset
from unfit.data.encoding import BLOCK, Encoded, Encoding
from unfit.data.generation import SPARSE_BLOCK
from unfit.errors import CannotTrain

SHOWN = 3  # reasons that a decision names
CLASS_WEIGHTS = "[model] class_weight"  # beside the names of columns, in audits
UNROUNDED = (
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
    """The sums of the rows at some positions."""
    total = Sums.of(dataset.raw_rows(positions), _sizes(dataset, encoding))
    if not encoding.norm_fitted:
        return total
    slots = encoding.slots(dataset.vocabularies)
    return replace(total, lengths=_lengths(dataset, positions, encoding, slots))


def sums_of_training_rows(dataset: Dataset, live: np.ndarray, encoding: Encoding) -> Sums:
    """The sums of all training rows that remain, in one pass."""
    step = SPARSE_BLOCK if dataset.widths else BLOCK
    rows = list(_blocks(dataset.n_train, live, step))
    total = sums_of((dataset.raw_rows(at) for at in rows), _sizes(dataset, encoding))
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
    """Rounded lengths before rows are cut to the norm bound, computed from the raw values."""
    return lengths_of(encoding.unbounded(dataset.raw_rows(at), slots))


def _sizes(dataset: Dataset, encoding: Encoding) -> Sizes:
    return Sizes.of([c.column for c in encoding.columns], dataset.vocabularies)


def _blocks(n: int, live: np.ndarray, step: int = BLOCK) -> Iterator[slice | np.ndarray]:
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        yield part if live[part].all() else start + np.flatnonzero(live[part])


@dataclass
class RunningSums:
    """The sums of the training rows that remain: made when they are first needed, then kept."""

    dataset: Dataset
    kept: Sums | None = None
    _choices: Choices = field(default_factory=Choices)
    _foreseen: tuple[np.ndarray, Changes] | None = None  # what was asked last

    def make(self, encoding: Encoding, live: np.ndarray) -> Sums | None:
        """The sums; None for a card whose constants were never rounded."""
        if self.kept is None and encoding.min_rows is not None:
            self.kept = sums_of_training_rows(self.dataset, live, encoding)
        return self.kept

    def changes(self, encoding: Encoding, live: np.ndarray, positions: np.ndarray) -> Changes:
        """What it means for the constants that rows leave, whether of training or held out."""
        kept = self.make(encoding, live)
        if kept is None:
            return Changes((UNROUNDED,), tuple(c.column.name for c in _fitted(encoding)), encoding)
        if self._foreseen is not None and self._foreseen[0] is positions:  # asked more than once
            return self._foreseen[1]
        leaving = positions[positions < self.dataset.n_train]
        live = live.copy()
        live[positions] = False
        total = kept - sums_at(self.dataset, leaving, encoding)
        found = compare(encoding, self.dataset, live, total, self._choices)
        self._foreseen = positions, found
        return found

    def subtract(self, encoding: Encoding, leaving: np.ndarray) -> None:
        """Follow an erasure, before the rows are zeroed."""
        if self.kept is not None:
            self.kept = self.kept - sums_at(self.dataset, leaving, encoding)
        self._foreseen = None


def differing(encoding: Encoding, dataset: Dataset, live: np.ndarray) -> tuple[str, ...]:
    """The columns whose constants are not those of a fit on the raw values that remain, all of
    which are read again for it; '' stands for the norm bound."""
    if encoding.min_rows is None:
        return tuple(c.column.name for c in _fitted(encoding))
    total = sums_of_training_rows(dataset, live, encoding)
    return compare(encoding, dataset, live, total).differing


def _fitted(encoding: Encoding) -> list[Encoded]:
    return [c for c in encoding.columns if c.constants == "fitted"]


@dataclass(frozen=True, kw_only=True)
class _Remaining:
    """The rows that remain, of training and held out, and the sums of the training rows."""

    dataset: Dataset
    live: np.ndarray
    sums: Sums
    min_rows: int

    def any_number_missing(self, column: int) -> bool:
        return self._any(np.isnan, "values", column)

    def any_of(self, codes: Sequence[int], column: int) -> bool:
        """Whether a row holds one of these categories."""
        return self._any(lambda found: np.isin(found, codes), "codes", column)

    def _any(self, test: Callable[[np.ndarray], np.ndarray], array: str, column: int) -> bool:
        values = self.dataset[array]
        blocks = _blocks(len(self.live), self.live)
        return any(bool(test(values[at, column]).any()) for at in blocks)


def compare(
    encoding: Encoding,
    dataset: Dataset,
    live: np.ndarray,
    total: Sums,
    choices: Choices | None = None,
) -> Changes:
    """Compare an encoding with the one that the sums of the training rows give.

    live: mask over all rows, of training and held out. choices: of categories, made before.
    """
    fresh = refitted(encoding, dataset.vocabularies, total, choices)
    rows = _Remaining(dataset=dataset, live=live, sums=total, min_rows=encoding.min_rows or 1)
    due: list[str] = []
    columns: list[str] = []
    made: list[Encoded] = []
    numbers = categories = 0
    for old, new in zip(encoding.columns, fresh.columns, strict=True):
        if old.column.kind == "category":
            reasons, one = _compare_categories(old, new, rows, categories)
            categories += 1
        elif old.column.kind in BAGS:
            reasons, one = _compare_bags(old, new)
        else:
            reasons, one = _compare_numbers(old, new, rows, numbers)
            numbers += 1
        due += reasons
        columns += [old.column.name] * (bool(reasons) or one != old)
        made.append(one)
    if fresh.norm != encoding.norm:
        due.append("the bound on the length of a row changed after rounding")
        columns.append("")
    kept = encoding if due else replace(encoding, columns=tuple(made))
    return Changes(tuple(due), tuple(columns), kept)


def _compare_numbers(
    old: Encoded, new: Encoded, rows: _Remaining, at: int
) -> tuple[list[str], Encoded]:
    """Reasons to retrain, and the column as it is from now on. at: among those of numbers."""
    name = old.column.name
    constants = {"mean": (old.shift, new.shift), "deviation": (old.scale, new.scale)}
    changed = [what for what, (before, after) in constants.items() if before != after]
    if changed:
        return [f"the {' and the '.join(changed)} of column {name!r} changed after rounding"], old
    if old.fill != new.fill and rows.any_number_missing(at):
        reason = f"what stands for a missing value of column {name!r} changed after rounding"
        return [reason], old
    if (old.fill, old.constants) == (new.fill, new.constants):
        return [], old
    return [], replace(old, fill=new.fill, constants=new.constants)


def _compare_bags(old: Encoded, new: Encoded) -> tuple[list[str], Encoded]:
    """Of a column that stands for many, only the scale may be fitted."""
    if old.scale == new.scale:
        return [], old
    return [f"the scale of column {old.column.name!r} changed after rounding"], old


def _compare_categories(
    old: Encoded, new: Encoded, rows: _Remaining, at: int
) -> tuple[list[str], Encoded]:
    """Reasons to retrain, and the column as it is from now on. at: among those of categories.

    A name that no row holds any more goes, and its place stays: its column is all zeros.
    """
    if old.constants == "declared" or old.categories == new.categories:
        return [], old if old.others == new.others else replace(old, others=new.others)
    before = {t for t in old.categories if t is not None}
    after = {t for t in new.categories if t is not None}
    name, lost = old.column.name, before - after
    texts = rows.dataset.vocabularies[at]
    codes = [code for code, text in enumerate(texts) if text in lost] if lost else []
    if after - before:
        return [f"the choice of the categories of column {name!r} changed"], old
    if codes and rows.any_of(codes, at):
        if any(rows.sums.categories[at][code] >= rows.min_rows for code in codes):
            return [f"the choice of the categories of column {name!r} changed"], old
        reason = (
            f"a category of column {name!r} is held by fewer than {rows.min_rows} training rows"
        )
        return [reason], old
    kept = tuple(t if t in after else None for t in old.categories)
    return [], replace(old, categories=kept, others=new.others)


def verdict(columns: Sequence[str]) -> str:
    """What an audit says of columns that differ."""
    others = {"": "the norm bound", CLASS_WEIGHTS: "the balanced weights of classes"}
    named = [others.get(name, f"column {name!r}") for name in columns]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return (
        f"not forgotten: the constants of {', '.join(named[:SHOWN])}{more} are not those of a fit "
        "on the rows that remain; run `unfit retrain`"
    )


def class_weights(
    asked: str | Mapping[str, float], classes: Sequence[str], codes: np.ndarray
) -> tuple[float, ...] | None:
    """The weight of each class as unfit.toml asks for them; None for "none".

    Balanced ones are of the training rows that are there, of which codes are the classes, and are
    rounded to two digits as other constants are, so that single rows seldom change them.
    """
    if asked == "none":
        return None
    if isinstance(asked, str):
        counts = np.bincount(codes, minlength=len(classes))
        return tuple(float(f"{weight:.1e}") for weight in balanced_weights(np.maximum(counts, 1)))
    try:
        return tuple(named_weights(asked, list(classes)).tolist())
    except ValueError as error:
        raise CannotTrain(f"model.class_weight: {error}") from None
