"""Rows to forget by position, by mask and by label, and what could be more than one of these."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unfit

N = 60


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((N, 3)), columns=["a", "b", "c"])
    frame.index = pd.Index(np.arange(N)[::-1], name="id")  # label 59 is row 0
    return frame, pd.Series((rng.random(N) < 0.5).astype(int), index=frame.index)


def fitted(X, y):
    return unfit.LogisticRegression(l2=1e-2).fit(X, y)


def gone(clf):
    return np.flatnonzero(~clf.remaining_).tolist()


def test_a_pandas_index_holds_labels_and_an_array_positions(table):
    X, y = table
    labels = X.index[[2, 5]]
    assert labels.tolist() == [57, 54]
    assert gone(fitted(X, y).unlearn(labels)) == [2, 5]
    assert gone(fitted(X, y).unlearn(labels.to_numpy())) == [54, 57]
    assert gone(fitted(X, y).unlearn([2, 5])) == [2, 5]
    assert gone(fitted(X.to_numpy(), y).unlearn(labels)) == [2, 5]  # the index of y
    assert gone(fitted(X.reset_index(drop=True), y).unlearn(pd.RangeIndex(3, 5))) == [3, 4]


def test_the_model_is_that_of_the_positions(table):
    X, y = table
    by_label = fitted(X, y).unlearn(X.query("a > 1").index)
    by_position = fitted(X.to_numpy(), y.to_numpy()).unlearn(np.flatnonzero(X["a"] > 1))
    np.testing.assert_array_equal(by_label.coef_, by_position.coef_)


def test_a_label_of_several_rows_names_them_all(table):
    X, y = table
    X.index = pd.Index([f"person {i // 2}" for i in range(N)])
    clf = fitted(X, y)
    assert gone(clf.unlearn(pd.Index(["person 3", "person 1"]))) == [2, 3, 6, 7]
    assert gone(clf.unlearn([10]).unlearn(pd.Index(["person 5"]))) == [2, 3, 6, 7, 10, 11]
    with pytest.raises(ValueError, match=r"labels \['person 5'\] were forgotten already"):
        clf.unlearn(pd.Index(["person 5", "person 6"]))
    with pytest.raises(ValueError, match=r"unknown labels \['nobody'\]"):
        clf.unlearn(pd.Index(["person 8", "nobody"]))
    assert clf.n_remaining_ == N - 6


def test_a_mask_names_rows_by_where_it_is_true(table):
    X, y = table
    mask = X["a"] > 1
    expected = np.flatnonzero(mask).tolist()
    for given in (mask, mask.to_numpy(), mask.tolist(), mask.astype("boolean")):
        assert gone(fitted(X, y).unlearn(given)) == expected
    assert gone(fitted(X, y).unlearn(mask.sort_index())) == expected  # by label, in any order
    assert gone(fitted(X, y).unlearn(np.zeros(N, bool))) == []
    plain = fitted(X.to_numpy(), y.to_numpy())
    assert gone(plain.unlearn(mask.reset_index(drop=True))) == expected


def test_masks_that_could_have_missing_values_and_empty_requests(table):
    X, y = table
    mask = pd.array([False, True, True] + [False] * 57, dtype="boolean")
    for request in (mask, pd.Index(mask)):
        assert gone(fitted(X, y).unlearn(request)) == [1, 2]
    for model in (fitted(X, y), fitted(X.to_numpy(), y.to_numpy())):
        for nobody in (pd.Index([]), X.index[:0], pd.Series([], dtype=int), mask[:0]):
            assert gone(model.unlearn(nobody)) == []


def test_whole_numbers_are_positions_though_all_are_zero_or_one(table):
    X, y = table
    assert gone(fitted(X, y).unlearn(np.array([0, 1]))) == [0, 1]
    clf = fitted(X, y)
    with pytest.raises(ValueError, match=r"rows \[0, 1\] are named more than once"):
        clf.unlearn((X["a"] > 1).to_numpy().astype(int))
    assert gone(clf) == []


def test_a_mask_of_labels_that_several_rows_have_must_be_in_order(table):
    X, y = table
    X.index = pd.Index([f"person {i // 2}" for i in range(N)])
    mask = X["a"] > 1
    assert gone(fitted(X, y).unlearn(mask)) == np.flatnonzero(mask).tolist()
    with pytest.raises(ValueError, match="some of them twice in another order"):
        fitted(X, y).unlearn(mask[::-1])


def test_what_could_be_either_is_refused(table):
    X, y = table
    clf, plain = fitted(X, y), fitted(X.to_numpy(), y.to_numpy())
    mask = X["a"] > 1
    for model, request, words in (
        (clf, pd.Series([1, 2]), r"rows\.to_numpy\(\).*pandas\.Index\(rows\)"),
        (clf, X.iloc[:2], r"frame\.index"),
        (plain, X.index[:2], "an Index holds labels, but the X of fit had none"),
        (clf, mask.rename(lambda label: label + 1), "other labels than the X of fit"),
        (clf, mask.iloc[:5], "for each of the 60 rows"),
        (plain, mask, "cannot be compared"),
        (clf, ["a", "b"], "labels of the data frame go into a pandas.Index"),
        (clf, mask.astype("boolean").mask(X["b"] > 1), "missing values"),
        (
            clf,
            pd.array([True, None] + [False] * 58, dtype="boolean"),
            "the first at position 1; fill",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            model.unlearn(request)
        assert gone(model) == []


def test_mini_batches_follow_the_order_of_the_request():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    y = (X[:, 0] > 0).astype(int)

    def after(rows):
        clf = unfit.LogisticRegression(deletion_batch_size=10, dtype="float64", l2=1e-2)
        return clf.fit(X, y).unlearn(rows).coef_

    rows = rng.permutation(40)
    in_steps = unfit.LogisticRegression(dtype="float64", l2=1e-2).fit(X, y)
    for start in range(0, 40, 10):
        in_steps.unlearn(rows[start : start + 10])
        in_steps._state = replace(in_steps._state, stream=None)  # no request before this one
    np.testing.assert_allclose(after(rows), in_steps.coef_, rtol=1e-9)
    assert np.abs(after(np.sort(rows)) - in_steps.coef_).max() > 1e-7
