"""Processes that read and write files at once: what asks for them need not know where they run."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Readers(Protocol):
    """Processes that work at once, on storage that all of them see under the same path.

    count: how many functions they run at a time.
    """

    @property
    def count(self) -> int: ...

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        """function(item) of every item, in their order. Both can be pickled, and a function may run
        twice on the same item."""
        ...
