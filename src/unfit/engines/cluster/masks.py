"""Masks over very many rows, all of which but a few are the same: the positions of those few.

The process that asks a cluster holds no byte a row: its memory grows with the rows that left.
Knows nothing of ours.
"""

from collections.abc import Callable
from typing import Any, Self, cast

import numpy as np

_FUNCTIONS: dict[Callable[..., Any], Callable[["FewMask"], Any]] = {}


class FewMask:
    """A boolean mask over n rows that is `inside` at some rising positions and its opposite at all
    others.

    It answers what engines, methods and certificates ask of a mask, without an array of n bytes;
    whatever else NumPy does with it, it does with such an array (`__array__`).
    """

    dtype = np.dtype(np.bool_)
    ndim = 1

    def __init__(self, n: int, few: np.ndarray, *, inside: bool) -> None:
        self.n, self.few, self.inside = n, few, inside

    @classmethod
    def full(cls, n: int, value: bool) -> Self:
        """The same for all rows."""
        return cls(n, np.zeros(0, np.int64), inside=not value)

    @classmethod
    def of(cls, mask: "np.ndarray | FewMask") -> "FewMask":
        """Any mask, by the positions of whichever are fewer."""
        if isinstance(mask, FewMask):
            return mask
        inside = 2 * int(np.count_nonzero(mask)) < len(mask)
        return cls(len(mask), np.flatnonzero(mask if inside else ~mask), inside=inside)

    def standing_in(self) -> np.ndarray:
        """Itself, where a type says that masks are arrays."""
        return cast(np.ndarray, self)

    def __len__(self) -> int:
        return self.n

    @property
    def size(self) -> int:
        return self.n

    @property
    def shape(self) -> tuple[int]:
        return (self.n,)

    @property
    def nbytes(self) -> int:
        return int(self.few.nbytes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        mask = np.full(self.n, not self.inside)
        mask[self.few] = self.inside
        return mask if dtype is None else mask.astype(dtype, copy=False)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in _FUNCTIONS and len(args) == 1 and args[0] is self and not kwargs:
            return _FUNCTIONS[func](self)
        plain = [np.asarray(one) if isinstance(one, FewMask) else one for one in args]
        return func(*plain, **kwargs)

    def copy(self) -> Self:
        """Positions are never changed where they lie, so both may have them."""
        return type(self)(self.n, self.few, inside=self.inside)

    def __getitem__(self, rows: Any) -> Any:
        """At some positions, each of them; of a slice or a mask, an array."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.n)
            if step != 1:
                return np.asarray(self)[rows]
            part = np.full(max(0, stop - start), not self.inside)
            part[self.between(start, stop)] = self.inside
            return part
        places = np.asarray(rows)
        if places.dtype == np.bool_:
            places = np.flatnonzero(places)
        found = np.isin(self._from_start(places), self.few)
        return found if self.inside else ~found

    def _from_start(self, places: np.ndarray) -> np.ndarray:
        """Positions, of which negative ones count from the end."""
        if places.size and not -self.n <= places.min() <= places.max() < self.n:
            raise IndexError(f"a position is outside of the {self.n:,} rows of a mask")
        return np.where(places < 0, places + self.n, places)

    def __setitem__(self, rows: Any, value: bool) -> None:
        places = np.asarray(rows)
        if places.dtype == np.bool_:
            places = np.flatnonzero(places)
        places = self._from_start(places.astype(np.int64))
        join = np.union1d if bool(value) == self.inside else np.setdiff1d
        self.few = join(self.few, places)

    def between(self, start: int, stop: int) -> np.ndarray:
        """The few from start to stop, counted from start."""
        first, last = np.searchsorted(self.few, [start, stop])
        return np.asarray(self.few[first:last] - start)

    def count(self, start: int = 0, stop: int | None = None) -> int:
        """How many are True from start to stop."""
        stop = self.n if stop is None else stop
        few = len(self.between(start, stop))
        return few if self.inside else stop - start - few

    def nth(self, ranks: np.ndarray) -> np.ndarray:
        """The positions of the rows that are True, by their rank among these."""
        if self.inside:
            return np.asarray(self.few[ranks])
        before = self.few - np.arange(len(self.few))  # ranks below this come before one of the few
        return np.asarray(ranks + np.searchsorted(before, ranks, side="right"))

    def all(self) -> bool:
        return self.count() == self.n

    def any(self) -> bool:
        return self.count() > 0

    def sum(self) -> int:
        return self.count()

    def __invert__(self) -> Self:
        return type(self)(self.n, self.few, inside=not self.inside)

    def __and__(self, other: Any) -> Any:
        if not isinstance(other, FewMask):
            return np.asarray(self) & other
        if self.inside and other.inside:
            return FewMask(self.n, np.intersect1d(self.few, other.few), inside=True)
        if self.inside:
            return FewMask(self.n, np.setdiff1d(self.few, other.few), inside=True)
        if other.inside:
            return other & self
        return FewMask(self.n, np.union1d(self.few, other.few), inside=False)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return ~(~self & ~other)

    __ror__ = __or__


_FUNCTIONS[np.count_nonzero] = FewMask.count
_FUNCTIONS[np.flatnonzero] = lambda mask: mask.nth(np.arange(mask.count()))
