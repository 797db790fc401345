"""Deletion laws: which rows are asked to be forgotten, and in what order.

The published curves come from four laws. uniform-random: a permutation of all rows.
uniform-informed: the largest norms of all rows. targeted-random and targeted-informed: the same
within one class.

The paper's text says otherwise of the uniform laws: draw a class (each of those that still have
rows with the same chance), then a row of it (uniformly, or the largest norm that is left). That
uses up the smaller classes, so that what is left in the end is of one class. These are laws too,
text-uniform-random and text-uniform-informed; nothing of theirs stands beside published values.

A law is a function of the labels, the norms, the target class and a Generator to an order of rows;
a deletion of m rows is the first m of it, in that order, so that larger deletions of one seed
contain smaller ones. A new law is one function and one call of `add_law`.
"""

from collections.abc import Callable

import numpy as np

from unfit.errors import BadInput

Law = Callable[[np.ndarray, np.ndarray, int, np.random.Generator], np.ndarray]
LAWS: dict[str, Law] = {}


def add_law(name: str, law: Law) -> Law:
    """Make a law known under a name: law(codes, norms, target, rng) -> rows in their order."""
    LAWS[name] = law
    return law


def order_of(
    law: str, codes: np.ndarray, norms: np.ndarray, target: int, rng: np.random.Generator
) -> np.ndarray:
    """All the rows that a law would ever delete, in their order."""
    if law not in LAWS:
        raise BadInput(f"unknown deletion law {law!r}; there are {', '.join(LAWS)}")
    return LAWS[law](codes, norms, target, rng)


def first(order: np.ndarray, count: int, law: str) -> np.ndarray:
    """The first rows of an order."""
    if not 0 <= count <= len(order):
        raise BadInput(f"{law} cannot delete {count:,} rows; it has {len(order):,} to choose from")
    return order[:count]


def count_of(fraction: float, n: int) -> int:
    """Rows in a fraction of n, rounded down."""
    return int(fraction * n + 1e-9)


def uniform_classes(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A class for every row there is, each time one of those that are not used up yet.

    Draws in blocks; a block is good up to where a class gives its last row.
    """
    left = counts.astype(np.int64)
    drawn: list[np.ndarray] = []
    while (alive := np.flatnonzero(left > 0)).size:
        block = alive[rng.integers(alive.size, size=int(left.sum()))]
        ends = [np.flatnonzero(block == c)[left[c] - 1 : left[c]] for c in alive]
        first = min((int(end[0]) for end in ends if end.size), default=len(block) - 1)
        block = block[: first + 1]
        left -= np.bincount(block, minlength=len(left))
        drawn.append(block)
    return np.concatenate(drawn) if drawn else np.zeros(0, np.int64)


def _at_random(rows: np.ndarray, norms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(rows)


def _largest_first(rows: np.ndarray, norms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rows[np.argsort(-norms[rows], kind="stable")]


Pick = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def _uniform(pick: Pick) -> Law:
    """As published: all rows are one class."""

    def law(
        codes: np.ndarray, norms: np.ndarray, target: int, rng: np.random.Generator
    ) -> np.ndarray:
        return pick(np.arange(len(codes)), norms, rng)

    return law


def _by_class(pick: Pick) -> Law:
    """As the paper's text has it: a class is drawn, then a row of it."""

    def law(
        codes: np.ndarray, norms: np.ndarray, target: int, rng: np.random.Generator
    ) -> np.ndarray:
        classes = uniform_classes(np.bincount(codes), rng)
        order = np.empty(len(codes), np.int64)
        for c in range(int(codes.max()) + 1):
            order[classes == c] = pick(np.flatnonzero(codes == c), norms, rng)
        return order

    return law


def _targeted(pick: Pick) -> Law:
    def law(
        codes: np.ndarray, norms: np.ndarray, target: int, rng: np.random.Generator
    ) -> np.ndarray:
        return pick(np.flatnonzero(codes == target), norms, rng)

    return law


add_law("uniform-random", _uniform(_at_random))
add_law("targeted-random", _targeted(_at_random))
add_law("uniform-informed", _uniform(_largest_first))
add_law("targeted-informed", _targeted(_largest_first))
add_law("text-uniform-random", _by_class(_at_random))
add_law("text-uniform-informed", _by_class(_largest_first))
