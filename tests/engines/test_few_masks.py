"""Masks by the positions of a few rows do what arrays do."""

import operator
import pickle

import numpy as np
import pytest

from unfit.engines.cluster.masks import FewMask


def pairs(rng, n=50):
    """A mask of each kind, and the same as an array."""
    for inside in (False, True):
        few = np.sort(rng.choice(n, rng.integers(0, 12), replace=False))
        mask = FewMask(n, few, inside=inside)
        array = np.full(n, not inside)
        array[few] = inside
        yield mask, array


@pytest.mark.parametrize("seed", range(10))
def test_a_mask_is_the_array_that_it_stands_for(seed):
    rng = np.random.default_rng(seed)
    for mask, array in pairs(rng):
        np.testing.assert_array_equal(np.asarray(mask), array)
        assert np.count_nonzero(mask) == mask.sum() == array.sum()
        assert (mask.all(), mask.any(), len(mask)) == (array.all(), array.any(), 50)
        np.testing.assert_array_equal(np.flatnonzero(mask), np.flatnonzero(array))
        np.testing.assert_array_equal(np.flatnonzero(~mask), np.flatnonzero(~array))
        rows = rng.integers(-50, 50, 20)
        np.testing.assert_array_equal(mask[rows], array[rows])
        for part in (slice(3, 40), slice(None), slice(40, 3), slice(None, None, 7)):
            np.testing.assert_array_equal(mask[part], array[part])
        assert mask.count(7, 31) == array[7:31].sum()
        ranks = rng.integers(0, max(1, array.sum()), 9) if array.any() else np.zeros(0, int)
        np.testing.assert_array_equal(mask.nth(ranks), np.flatnonzero(array)[ranks])
        np.testing.assert_array_equal(np.asarray(FewMask.of(mask)), array)
        np.testing.assert_array_equal(np.asarray(FewMask.of(array)), array)
        np.testing.assert_array_equal(np.where(mask, 1, 2), np.where(array, 1, 2))
        np.testing.assert_array_equal(np.arange(50)[mask], np.arange(50)[array])
        np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(mask))), array)


@pytest.mark.parametrize("combine", [operator.and_, operator.or_])
@pytest.mark.parametrize("seed", range(5))
def test_masks_are_combined(seed, combine):
    rng = np.random.default_rng(seed)
    for one, first in pairs(rng):
        for other, second in pairs(rng):
            np.testing.assert_array_equal(np.asarray(combine(one, other)), combine(first, second))
            np.testing.assert_array_equal(combine(one, second), combine(first, second))
            np.testing.assert_array_equal(combine(first, other), combine(first, second))


@pytest.mark.parametrize("value", [False, True])
def test_rows_are_set_and_copies_stay(value):
    for mask, array in pairs(np.random.default_rng(3)):
        before = mask.copy()
        mask[np.array([49, 3, 3, -2])] = value
        np.testing.assert_array_equal(np.asarray(before), array)
        array[[3, 49, -2]] = value
        np.testing.assert_array_equal(np.asarray(mask), array)
        np.testing.assert_array_equal(np.flatnonzero(mask), np.flatnonzero(array))


def test_a_position_outside_is_an_error():
    with pytest.raises(IndexError):
        FewMask.full(5, True)[np.array([5])]
    with pytest.raises(IndexError):
        FewMask.full(5, True)[np.array([-6])] = False


def test_a_mask_takes_memory_for_the_few_alone():
    n = 10**15
    mask = FewMask.full(n, True)
    mask[np.array([7, n - 1])] = False
    assert mask.nbytes == 16
    assert (np.count_nonzero(mask), mask.nth(np.array([n - 3]))) == (n - 2, n - 2)
    assert mask[np.array([6, 7])].tolist() == [True, False]


def test_a_mask_of_a_few_rows_is_counted_without_all_others():
    n = 10**15
    mask = FewMask.of(FewMask(n, np.array([7, n - 1]), inside=True))
    assert (mask.count(), mask.count(8, n)) == (2, 1)
    assert mask.between(5, 9).tolist() == [2]
    assert mask.nth(np.array([1])).tolist() == [n - 1]
    assert (mask & ~FewMask(n, np.array([7]), inside=True)).count() == 1
    few = np.zeros(100, bool)
    few[[3, 4]] = True
    assert FewMask.of(few).nbytes == FewMask.of(~few).nbytes == 16
