"""A made-up click log of any size: hashed fields, several rows a person, planted weights.

A row is a view of an advertisement: one value in each of v fields, as a log of clicks has them once
its fields are hashed. Field j owns the columns j 2^b / v to (j + 1) 2^b / v; what it holds follows
Zipf's law. A third of the fields are traits of the person and the same in all their rows.
"""

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from unfit.data.catalog import formats
from unfit.data.catalog.entry import Entry, Parts, RawArrays, Training
from unfit.errors import BadInput

ROWS, BITS, VALUES, SEED = 500_000, 20, 39, 0
ROWS_A_PERSON = 5  # on average
BLOCK = 1 << 14  # rows that are made at a time
_ZIPF = 1.3
_BIAS = -1.5  # about one view in five is clicked


def generate(
    n: int = ROWS,
    bits: int = BITS,
    values: int = VALUES,
    *,
    n_test: int | None = None,
    seed: int = SEED,
) -> Parts:
    """n training rows of 2^bits columns with `values` ones each, divided by their length.

    P(clicked) = sigmoid(bias + the sum of the planted weights of the row's columns). What is in
    memory besides the CSR arrays is a block of rows and one weight a column. n_test: a tenth of n
    by default; people who are in the training rows are not in the test rows.
    """
    if not 0 < values <= 2**bits:
        raise BadInput(f"{values} values a row do not fit {2**bits:,} columns")
    law, train, test = np.random.SeedSequence(seed).spawn(3)
    weights = np.random.default_rng(law).standard_normal(2**bits, np.float32)
    weights *= np.float32(2 / np.sqrt(values))
    X, y, people = _rows(n, values, weights, train)
    n_test = max(1, n // 10) if n_test is None else n_test
    X_test, y_test, _ = _rows(n_test, values, weights, test)
    return Parts(X, y, X_test, y_test, people)


def _rows(
    n: int, values: int, weights: np.ndarray, seed: np.random.SeedSequence
) -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    rng, width = np.random.default_rng(seed), len(weights)
    who = np.sort(rng.integers(0, max(1, n // ROWS_A_PERSON), n))
    traits = int(rng.integers(1 << 62))
    labels: list[np.ndarray] = []

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, n, BLOCK):
            people = who[start : start + BLOCK]
            columns = _columns(people, values, width, traits, rng)
            score = _BIAS + weights[columns].sum(axis=1, dtype=np.float64)
            labels.append(rng.random(len(people)) < 1 / (1 + np.exp(-score)))
            yield columns

    indices = formats.gathered(blocks(), "the click log", 4 * n * values, np.int32).reshape(-1)
    kind = np.int32 if n * values < 2**31 else np.int64
    indptr = np.arange(0, n * values + 1, values, dtype=kind)
    data = np.full(n * values, 1 / np.sqrt(values), np.float32)
    X = sparse.csr_array((data, indices, indptr), (n, width))
    return X, np.concatenate(labels).astype(np.int64), who


def _columns(
    people: np.ndarray, values: int, width: int, traits: int, rng: np.random.Generator
) -> np.ndarray:
    """(m, values) columns, rising in each row: one of each field."""
    span = width // values
    uniform = rng.random((len(people), values))
    own = np.arange(0, values, 3)  # fields that say something about the person
    uniform[:, own] = _uniform(people[:, None] * np.int64(values) + own, traits)
    rank = np.minimum((1 - uniform) ** (-1 / (_ZIPF - 1)) - 1, span - 1).astype(np.int64)
    return np.asarray(np.arange(values) * span + rank, np.int32)


def _uniform(keys: np.ndarray, salt: int) -> np.ndarray:
    """A number in [0, 1) for each whole number, by the finalizer of SplitMix64."""
    z = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53)


def _prepare(raw: RawArrays) -> Parts:
    return generate()


ENTRIES = (
    Entry(
        name="clicks",
        title="click log",
        about="A made-up click log: 500,000 views by 100,000 people, 39 of 2^20 columns each.",
        citation="made up by unfit from a seed; no real people",
        terms="made up",
        file_sets=(),
        prepare=_prepare,
        training=Training(epochs=5, batch_size=512, burn_in=10),
        intercept=True,
        target=1,
        volumes=(0.001, 0.01, 0.05),
        theta=0.1,
        speed_only=True,
    ),
)
