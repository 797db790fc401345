"""Constants are a function of the rows that remain: exact sums, rounded results, no history."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.data import exact_sums
from unfit.data.categories import Choices, kept_categories, rounded_counts
from unfit.data.columns import Column
from unfit.data.constants import (
    Sizes,
    Sums,
    fit,
    fitted_columns,
    lengths_of,
    mean_and_deviation,
    norm_of,
    sums_of,
)
from unfit.data.raw_rows import RawRows

numbers = st.one_of(
    st.just(float("nan")),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 2.0**-149, -(2.0**-140), 3.0e38, -3.0e38]),
)


def reference(values: list[float], min_rows: int) -> tuple[Fraction, Fraction]:
    """The rounded mean and deviation by the definition, in fractions."""
    known = [Fraction(float(np.float32(v))) for v in values if v == v]
    if len(known) < max(min_rows, 1):
        return Fraction(0), Fraction(1)
    mean = sum(known) / len(known)
    variance = sum((v - mean) ** 2 for v in known) / len(known)
    scale = Fraction(1)
    if variance:
        while variance >= 2 * scale**2:
            scale *= 2
        while variance < scale**2 / 2:
            scale /= 2
    step = scale / 8
    return (mean / step + Fraction(1, 2)).__floor__() * step, scale


@given(st.lists(numbers, max_size=40), st.integers(1, 4))
def test_means_and_deviations_are_those_of_fractions(values: list[float], min_rows: int) -> None:
    (known,), (total,), (square,) = exact_sums.sums(np.array(values, np.float32)[:, None])
    exactly = [Fraction(float(np.float32(v))) for v in values if v == v]
    assert known == len(exactly)
    assert Fraction(total, 2**149) == sum(exactly)
    assert Fraction(square, 2**298) == sum(v * v for v in exactly)
    found = mean_and_deviation(known, total, square, min_rows)
    assert tuple(map(Fraction, found)) == reference(values, min_rows)


@given(st.data())
def test_erased_rows_leave_no_trace_in_the_sums(data: st.DataObject) -> None:
    """Whatever was added and taken away before, sums and constants are those of what remains."""
    n = data.draw(st.integers(1, 30))
    columns = st.lists(numbers, min_size=n, max_size=n)
    values = np.array([data.draw(columns) for _ in range(2)], np.float32).T
    codes = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))[:, None]
    order = np.array(data.draw(st.permutations(range(n))))
    left = data.draw(st.integers(0, n))
    sizes = Sizes(numbers=2, vocabularies=[4])
    total = Sums.of(RawRows(values, codes), sizes)
    for part in np.array_split(order[left:], 3):
        total = total - Sums.of(RawRows(values[part], codes[part]), sizes)
    remaining = np.sort(order[:left])
    fresh = Sums.of(RawRows(values[remaining], codes[remaining]), sizes)
    assert (total.known, total.totals, total.squares) == (fresh.known, fresh.totals, fresh.squares)
    np.testing.assert_array_equal(total.categories[0], fresh.categories[0])
    made = [Column("a", "numeric"), Column("b", "boolean"), Column("c", "category")]
    texts = [["w", "x", "y", "z"]]
    assert fitted_columns(made, texts, total, 2) == fitted_columns(made, texts, fresh, 2)


def test_sums_of_blocks_are_sums_of_all() -> None:
    rng = np.random.default_rng(0)
    n = exact_sums.BLOCK + 1000
    values = (rng.standard_normal((n, 3)) * 10.0 ** rng.integers(-30, 30, (n, 3))).astype("f4")
    values[rng.random((n, 3)) < 0.1] = np.nan
    codes = rng.integers(0, 5, (n, 1))
    sizes = Sizes(numbers=3, vocabularies=[5])
    whole = Sums.of(RawRows(values, codes), sizes)
    blocks = [RawRows(values[i : i + 777], codes[i : i + 777]) for i in range(0, n, 777)]
    parts = sums_of(blocks, sizes)
    assert (whole.known, whole.totals, whole.squares) == (parts.known, parts.totals, parts.squares)
    assert list(whole.known) == (~np.isnan(values)).sum(axis=0).tolist()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(1, 5), st.integers(1, 9))
def test_categories_on_a_ladder(counts: list[int], most: int, min_rows: int) -> None:
    texts = [f"t{i}" for i in range(len(counts))]
    column = Column("c", "category", max_categories=most)
    kept, others = kept_categories(column, texts, np.array(counts), min_rows)
    enough = [t for t, n in zip(texts, counts, strict=True) if n >= min_rows]
    assert len(kept) == min(most, len(enough))
    assert sorted([*kept, *others]) == sorted(enough)
    rows = dict(zip(texts, counts, strict=True))
    for one in kept:  # nobody with far more rows is left out
        assert all(rows[other] < 1.25 * rows[one] for other in others)


def test_ranks_seldom_matter() -> None:
    """Erasures that cross no rounded frequency leave the choice as it is."""
    texts, two = ["a", "b", "c", "d"], Column("c", "category", max_categories=2)
    for counts in ([96, 97, 98, 99], [99, 98, 97, 96], [81, 80, 99, 99]):
        assert kept_categories(two, texts, np.array(counts), 10)[0] == ("a", "b")
    assert kept_categories(two, texts, np.array([79, 80, 98, 99]), 10)[0] == ("b", "c")


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=20), st.integers(0, 50))
def test_rounded_counts_are_those_of_whole_numbers(counts: list[int], min_rows: int) -> None:
    least = max(min_rows, 1)
    for count, found in zip(counts, rounded_counts(np.array(counts), min_rows), strict=True):
        steps = [(i, j) for i in range(25) for j in range(4) if 4 * count >= least * 2**i * (4 + j)]
        assert found == (4 * steps[-1][0] + steps[-1][1] if steps else -1)


@given(st.lists(st.lists(st.integers(0, 60), min_size=6, max_size=6), min_size=1, max_size=12))
def test_a_choice_that_is_remembered_is_the_one_that_would_be_made(walk: list[list[int]]) -> None:
    column, choices = Column("city", "category", max_categories=3), Choices()
    texts: list[str | None] = [*"abcdef"]
    for step, counts in enumerate(walk):
        if step == 5:  # a name that nobody holds any more is removed
            texts = [None if count == 0 else t for t, count in zip(texts, counts, strict=True)]
        now = np.array(counts)
        wanted = kept_categories(column, texts, now, 5)
        assert choices.of_all([column], [texts], [now], 5) == [wanted]


def test_columns_are_chosen_from_together_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    columns = [Column(f"c{most}", "category", max_categories=most) for most in (2, 9, 1)]
    texts = [[f"t{i}" for i in range(size)] for size in (5, 1, 7)]
    choices = Choices()
    assert choices.of_all([], [], [], 5) == []
    for _ in range(5):
        counts = [rng.integers(0, 40, len(names)) for names in texts]
        wanted = [kept_categories(*each, 5) for each in zip(columns, texts, counts, strict=True)]
        assert choices.of_all(columns, texts, counts, 5) == wanted


def test_a_norm_is_the_rounded_median_length() -> None:
    rng = np.random.default_rng(1)
    X = (rng.standard_normal((500, 3)) * 2.0 ** rng.integers(-8, 8, (500, 1))).astype("f4")
    X[:4] = [[2, 0, 0], [0, 0, 0], [1, 0, 0], [1, 1, 1]]
    lengths = np.linalg.norm(X.astype(np.float64), axis=1)
    counts = lengths_of(X)
    assert sum(counts.values()) == (lengths > 0).sum()
    for k, count in counts.items():
        assert count == (np.rint(8 * np.log2(np.maximum(lengths, 1e-99))) == k).sum()
    lower = np.sort(lengths[lengths > 0])[(len(X) - 2) // 2]
    rounded = 2.0 ** (np.rint(8 * np.log2(lower)) / 8)
    assert norm_of(counts, 10) == pytest.approx(rounded, rel=1e-7)
    assert norm_of(counts | {500: 0, -500: 0}, 10) == norm_of(counts, 10)  # who has left
    assert norm_of({0: 5, 8: 4}, 9) == 1.0
    assert norm_of({0: 4, 8: 5}, 9) == 2.0
    assert norm_of(lengths_of(X[:1]), 1) == 2.0
    assert norm_of(lengths_of(X[:1]), 2) == 1.0  # of one row alone, none is fitted
    assert norm_of(lengths_of(X[1:2]), 1) == norm_of({}, 1) == norm_of({3: 0}, 1) == 1.0


@given(st.integers(-900, 900), st.floats(-0.4999, 0.4999))
def test_a_length_counts_for_the_nearest_step(k: int, beside: float) -> None:
    length = 2.0 ** ((k + beside) / 8)
    assert lengths_of(np.array([[length]], "f4")) == {k: 1}


def test_the_card_says_that_the_fill_of_a_boolean_is_fitted_and_rounds_it() -> None:
    values = np.array([[1.0]] * 137 + [[0.0]] * 863 + [[np.nan]] * 5, np.float32)
    codes = np.empty((len(values), 0), np.int32)

    def blocks():  # type: ignore[no-untyped-def]
        yield RawRows(values, codes)

    (made,) = fit([Column("member", "boolean")], [], blocks, 0.0, 10).columns
    assert made.constants == "fitted"
    assert made.fill == 0.125  # deviation 0.34, rounded to 1/4; so the mean to 1/32
    (declared,) = fit([Column("member", "boolean", missing=1.0)], [], blocks, 0.0, 10).columns
    assert declared.constants == "declared"
    assert declared.fill == 1.0
    (few,) = fit([Column("member", "boolean")], [], blocks, 0.0, 1001).columns
    assert few.fill == 0.0


@pytest.mark.parametrize("value", [0.0, 123457.0, -1e30])
def test_a_column_of_one_value_is_centred_and_not_scaled(value: float) -> None:
    (known,), (total,), (square,) = exact_sums.sums(np.full((50, 1), value, np.float32))
    assert mean_and_deviation(known, total, square, 10) == (np.float32(value), 1.0)
