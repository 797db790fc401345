"""Constants that forget: what is fitted to the training rows is a function of those that remain.

A mean that was fitted with a person in it gives the person away: the mean before times n, less the
mean after times n - 1, is their value. So constants are rounded, and made of sums that rows can be
taken out of without a trace (data.exact_sums):

    deviation   rounded to a power of two 2^k
    mean        rounded to a multiple of 2^k / 8
    category    kept if at least min_rows rows hold it; of more than max_categories such, those with
                the most rows, counted in quarters of doublings of min_rows, then by name
    norm        the median length of a row, rounded to an eighth of a doubling; longer rows are cut
                to it
    sparse      one scale for all columns that a sparse column stands for: the median of rows'
                largest values, rounded down to a power of two. No shift: zeros stay zeros

`fitted(...)` depends on nothing but the sums and the columns: not on who has left, nor in which
order. Knows data.exact_sums and data.encoding.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from unfit.data.bags import one_of
from unfit.data.categories import Choices, Texts
from unfit.data.columns import BAGS, NUMBERS, Column
from unfit.data.csr import Csr
from unfit.data.encoding import Encoded, Encoding, Rows
from unfit.data.exact_sums import UNIT, square_lengths, sums
from unfit.data.raw_rows import RawRows

Blocks = Callable[[], Iterator[RawRows]]

MEAN_STEPS = 8  # of a mean to a rounded deviation
NORM_STEPS = 8  # of a norm to a doubling
# |x|^2 = f 2^e with f in [1/2, 1): where log2 |x| in eighths rounds to the next whole number.
_ROUNDS_UP = np.exp2((np.arange(-3, 1) - 0.5) / 4)


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What constants are made of, exactly; rows can be added and taken away.

    known, totals, squares: by number or boolean column, see exact_sums. categories: rows by raw
    code, for each category column. largest: rows by the exponent of their largest value, for each
    sparse or hashed column. lengths: rows by k where their encoded length, before the norm bound,
    rounds to 2^(k / 8); only where a norm is fitted.
    """

    known: tuple[int, ...]
    totals: tuple[int, ...]
    squares: tuple[int, ...]
    categories: tuple[np.ndarray, ...]
    largest: tuple[np.ndarray, ...] = ()
    lengths: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, raw: RawRows, sizes: "Sizes") -> "Sums":
        """Of raw rows."""
        known, totals, squares = sums(raw.values)
        counts = [
            np.bincount(raw.codes[:, j], minlength=size)
            for j, size in enumerate(sizes.vocabularies)
        ]
        largest = []
        if raw.bags is not None:
            each = (one_of(raw.bags, sizes.widths, j) for j in range(len(sizes.widths)))
            largest = [_largest_exponents(bag) for bag in each]
        return cls(
            known=tuple(known),
            totals=tuple(totals),
            squares=tuple(squares),
            categories=tuple(counts),
            largest=tuple(largest),
        )

    def __add__(self, other: "Sums") -> "Sums":
        return self._with(other, 1)

    def __sub__(self, other: "Sums") -> "Sums":
        return self._with(other, -1)

    def _with(self, other: "Sums", sign: int) -> "Sums":
        def each(ours: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(a + sign * b for a, b in zip(ours, theirs, strict=True))

        lengths = Counter(self.lengths)
        for k, count in other.lengths.items():
            lengths[k] += sign * count
        return Sums(
            known=each(self.known, other.known),
            totals=each(self.totals, other.totals),
            squares=each(self.squares, other.squares),
            categories=tuple(
                a + sign * b for a, b in zip(self.categories, other.categories, strict=True)
            ),
            largest=tuple(a + sign * b for a, b in zip(self.largest, other.largest, strict=True)),
            lengths={k: count for k, count in lengths.items() if count},
        )


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How long the parts of `Sums` are. numbers: number and boolean columns. vocabularies: texts
    of each category column. widths: of the sparse and hashed columns."""

    numbers: int
    vocabularies: Sequence[int]
    widths: Sequence[int] = ()

    @classmethod
    def of(cls, columns: Sequence[Column], vocabularies: Sequence[Texts]) -> "Sizes":
        return cls(
            numbers=sum(c.kind in NUMBERS for c in columns),
            vocabularies=[len(texts) for texts in vocabularies],
            widths=[c.width for c in columns if c.kind in BAGS],
        )

    def no_rows(self) -> RawRows:
        bags = None
        if self.widths:
            ends, numbers = np.zeros(1, np.int64), np.zeros(0, np.int32)
            data = np.zeros(0, np.float32)
            bags = Csr(indptr=ends, indices=numbers, data=data, width=sum(self.widths))
        values = np.empty((0, self.numbers), np.float32)
        return RawRows(values, np.empty((0, len(self.vocabularies)), np.int32), bags)


def sums_of(blocks: Iterable[RawRows], sizes: Sizes) -> Sums:
    """Of blocks of raw rows."""
    total = Sums.of(sizes.no_rows(), sizes)
    for raw in blocks:
        total = total + Sums.of(raw, sizes)
    return total


def _largest_exponents(bag: Csr) -> np.ndarray:
    """Rows by the exponent e of their largest value, 2^(e - 127) <= |x| < 2^(e - 126), (256,)."""
    exponents = ((bag.data.view(np.uint32) >> 23) & 255).astype(np.int64)
    filled = bag.counts > 0
    if not filled.any():
        return np.zeros(256, np.int64)
    of_rows = np.maximum.reduceat(exponents, bag.indptr[:-1][filled])
    return np.bincount(of_rows, minlength=256)


def size_of_values(largest: np.ndarray, min_rows: int) -> float:
    """The median of rows' largest values, rounded down to a power of two; 1 for fewer rows than
    min_rows."""
    total = int(largest.sum())
    if total < max(min_rows, 1):
        return 1.0
    median = int(np.searchsorted(np.cumsum(largest), (total + 1) // 2))
    return math.ldexp(1.0, max(median, 1) - 127)


def lengths_of(X: Rows) -> dict[int, int]:
    """Rows by the k for which their length rounds to 2^(k / 8); rows of zeros are left out."""
    squared = X.square_lengths() if isinstance(X, Csr) else square_lengths(X)
    fraction, exponent = np.frexp(squared[squared > 0])
    eighths = 4 * (exponent - 1) + np.searchsorted(_ROUNDS_UP, fraction, side="right")
    steps, counts = np.unique(eighths, return_counts=True)
    return dict(zip(steps.tolist(), counts.tolist(), strict=True))


def with_lengths(
    total: Sums,
    encoding: Encoding,
    vocabularies: Sequence[Texts],
    blocks: Iterable[RawRows],
) -> Sums:
    """With the lengths of the rows of `blocks` under an encoding."""
    slots = encoding.slots(vocabularies)
    lengths: Counter[int] = Counter()
    for raw in blocks:
        lengths.update(lengths_of(encoding.unbounded(raw, slots)))
    return replace(total, lengths=lengths)


def mean_and_deviation(known: int, total: int, square: int, min_rows: int) -> tuple[float, float]:
    """Rounded, of a column; 0 and 1 for fewer than min_rows values."""
    if known < max(min_rows, 1):
        return 0.0, 1.0
    k = _power_of_deviation(known, total, square)
    shift = UNIT + k - int(math.log2(MEAN_STEPS))  # mean / step = total / known / 2^shift
    above, below = total << max(-shift, 0), known << max(shift, 0)
    steps = (2 * above + below) // (2 * below)  # to the nearest; a half goes up
    return math.ldexp(steps, k) / MEAN_STEPS, math.ldexp(1.0, k)


def _power_of_deviation(known: int, total: int, square: int) -> int:
    """The k with 2^(k - 1/2) <= deviation < 2^(k + 1/2); 0 if all values are the same."""
    above = known * square - total * total  # the variance is above / below
    below = known * known << 2 * UNIT
    if above == 0:
        return 0
    power = above.bit_length() - below.bit_length()  # of the variance, rounded down
    if above << max(-power, 0) < below << max(power, 0):
        power -= 1
    return (power + 1) // 2


def fitted_columns(
    columns: Sequence[Column],
    vocabularies: Sequence[Texts],
    total: Sums,
    min_rows: int,
    choices: Choices | None = None,
) -> Encoding:
    """The constants of all columns; the norm bound is left open. choices: made before."""
    made = list[Encoded]()
    named = [c for c in columns if c.kind == "category"]
    chosen = iter((choices or Choices()).of_all(named, vocabularies, total.categories, min_rows))
    a = bag = 0
    for c in columns:
        if c.kind == "category":
            kept, others = next(chosen)
            made.append(Encoded(c, categories=kept, others=others, constants=_origin(c)))
        elif c.kind in BAGS:
            made.append(_bag(c, size_of_values(total.largest[bag], min_rows)))
            bag += 1
        else:
            found = mean_and_deviation(total.known[a], total.totals[a], total.squares[a], min_rows)
            made.append(_scaled(c, *found))
            a += 1
    return Encoding(tuple(made), min_rows=min_rows)


def _bag(column: Column, size: float) -> Encoded:
    scale = size if column.sd is None else column.sd
    scale = scale if column.kind == "sparse" and column.scale == "standard" else 1.0
    return Encoded(column, scale=float(scale), constants=_origin(column))


def _scaled(column: Column, mean: float, deviation: float) -> Encoded:
    shift, scale = 0.0, 1.0
    if column.kind == "numeric" and column.scale == "range":
        shift, scale = column.min or 0.0, (column.max or 0.0) - (column.min or 0.0)
    elif column.kind == "numeric" and column.scale == "standard":
        shift, scale = (mean, deviation) if column.mean is None else (column.mean, column.sd or 1.0)
    if isinstance(column.missing, float | int):
        fill = float(column.missing)
    else:
        fill = mean if column.kind == "boolean" else shift
    return Encoded(
        column,
        shift=float(shift),
        scale=float(scale),
        fill=float(fill),
        constants=_origin(column),
    )


def _origin(column: Column) -> Literal["declared", "fitted"]:
    return "declared" if column.declared else "fitted"


def norm_of(lengths: Mapping[int, int], min_rows: int) -> float:
    """The median; of fewer rows than min_rows none. A float32, which is the same everywhere."""
    counts = sorted(lengths.items())
    total = sum(count for _, count in counts)
    if total < max(1, min_rows):
        return 1.0
    up_to = np.cumsum([count for _, count in counts])
    median, _ = counts[int(np.searchsorted(up_to, (total + 1) // 2))]
    return float(np.float32(2.0 ** (median / NORM_STEPS)))


def fit(
    columns: Sequence[Column],
    vocabularies: Sequence[Texts],
    blocks: Blocks,
    norm: float | None,
    min_rows: int,
    sparse: Callable[[Encoding], bool] = lambda _: False,
) -> Encoding:
    """The encoding of training rows that `blocks()` yields, as often as it is called.

    norm: a declared bound (0: none), or None to fit it. min_rows: fewer rows than this
    neither make a category nor a mean, which would be about single people. sparse: whether rows
    are to be kept as sparse ones, once the columns are known.
    """
    total = sums_of(blocks(), Sizes.of(columns, vocabularies))
    encoding = fitted_columns(columns, vocabularies, total, min_rows)
    encoding = replace(encoding, sparse=sparse(encoding))
    if norm is not None:
        return encoding if norm == 0 else replace(encoding, norm=norm, clip=True)
    total = with_lengths(total, encoding, vocabularies, blocks())
    norm = norm_of(total.lengths, min_rows)
    return replace(encoding, norm=norm, norm_fitted=True, clip=True)


def refitted(
    encoding: Encoding,
    vocabularies: Sequence[Texts],
    total: Sums,
    choices: Choices | None = None,
) -> Encoding:
    """What fitting as `encoding` was fitted gives for sums; lengths are those under `encoding`."""
    columns = [c.column for c in encoding.columns]
    made = fitted_columns(columns, vocabularies, total, encoding.min_rows or 1, choices)
    norm = encoding.norm
    if encoding.norm_fitted:
        norm = norm_of(total.lengths, encoding.min_rows or 1)
    return replace(
        made,
        norm=norm,
        clip=encoding.clip,
        norm_fitted=encoding.norm_fitted,
        sparse=encoding.sparse,
    )
