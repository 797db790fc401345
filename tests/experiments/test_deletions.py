"""The laws, published and of the text: seeded, for any number of classes, until nothing is left."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.errors import BadInput
from unfit.experiments.deletions import LAWS, count_of, first, order_of, uniform_classes

LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=60).map(
    lambda raw: np.unique(np.array(raw), return_inverse=True)[1]
)


@given(LABELS, st.integers(0, 2**32 - 1), st.sampled_from(sorted(LAWS)))
def test_a_law_names_rows_once_and_the_same_ones_for_a_seed(codes, seed, law):
    norms = np.random.default_rng(1).random(len(codes))
    target = int(codes[0])
    order = order_of(law, codes, norms, target, np.random.default_rng(seed))
    again = order_of(law, codes, norms, target, np.random.default_rng(seed))
    np.testing.assert_array_equal(order, again)
    assert len(set(order.tolist())) == len(order)
    if law.startswith("targeted"):
        assert set(order.tolist()) == set(np.flatnonzero(codes == target).tolist())
    else:
        assert len(order) == len(codes)


@given(LABELS, st.integers(0, 2**32 - 1))
def test_informed_laws_take_the_largest_norm_that_is_left_in_the_class(codes, seed):
    norms = np.random.default_rng(2).random(len(codes))
    for law in ("text-uniform-informed", "targeted-informed"):
        order = order_of(law, codes, norms, int(codes[0]), np.random.default_rng(seed))
        for c in np.unique(codes[order]):
            of_class = norms[order[codes[order] == c]]
            assert (np.diff(of_class) <= 0).all()


def test_uniform_informed_takes_the_largest_norm_whatever_the_class():
    codes, norms = np.array([0, 1, 0, 1]), np.array([1.0, 4.0, 3.0, 2.0])
    order = order_of("uniform-informed", codes, norms, 0, np.random.default_rng(0))
    np.testing.assert_array_equal(order, [1, 2, 3, 0])


def test_uniform_random_deletes_classes_by_their_share_and_the_text_s_law_alike():
    """At 99 % the published law leaves both classes, that of the text the larger one alone."""
    codes = np.repeat([0, 1], [6131, 5851])
    left = {}
    for law in ("uniform-random", "text-uniform-random"):
        order = order_of(law, codes, np.ones(len(codes)), 0, np.random.default_rng(4))
        left[law] = np.bincount(codes[order[int(0.99 * len(codes)) :]], minlength=2)
    assert left["uniform-random"].min() > 35
    assert left["text-uniform-random"].tolist() == [120, 0]


def test_uniform_classes_follow_the_sequential_law():
    """Against drawing one class after another: the same distribution of whole sequences."""
    counts = np.array([1, 2, 1])
    rng, reference = np.random.default_rng(0), np.random.default_rng(1)

    def one_by_one():
        left, drawn = counts.copy(), []
        while left.sum():
            c = reference.choice(np.flatnonzero(left))
            left[c] -= 1
            drawn.append(int(c))
        return tuple(drawn)

    ours, theirs = {}, {}
    trials = 6000
    for _ in range(trials):
        for found, sequence in (
            (ours, tuple(uniform_classes(counts, rng).tolist())),
            (theirs, one_by_one()),
        ):
            found[sequence] = found.get(sequence, 0) + 1
    assert set(ours) == set(theirs)
    for sequence, count in theirs.items():
        assert abs(ours[sequence] - count) < 6 * np.sqrt(2 * count)


def test_the_text_s_law_draws_classes_alike_until_one_is_used_up():
    codes = np.repeat([0, 1, 2], [5000, 5000, 100])
    order = order_of("text-uniform-random", codes, np.ones(len(codes)), 0, np.random.default_rng(3))
    head = np.bincount(codes[order[:240]], minlength=3)
    assert (np.abs(head - 80) < 40).all()
    assert np.bincount(codes[order[:2000]])[2] == 100


def test_more_rows_than_there_are_is_an_error():
    with pytest.raises(BadInput, match="targeted-random cannot delete 5 rows; it has 3"):
        first(np.arange(3), 5, "targeted-random")
    with pytest.raises(BadInput, match="unknown deletion law 'nobody'"):
        order_of("nobody", np.zeros(3, int), np.ones(3), 0, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("fraction", "n", "count"),
    [(0.375, 11_982, 4493), (0.05, 522_910, 26_145), (0.3, 11_982, 3594), (0.29, 100, 29)],
)
def test_a_fraction_is_rounded_down_to_rows(fraction, n, count):
    assert count_of(fraction, n) == count
    assert count_of(count / n, n) == count
