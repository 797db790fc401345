"""Bad input: a sentence that names the value and the remedy, and nothing changes."""

import shutil
from collections import namedtuple

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

import unfit
from unfit.errors import CannotTrain
from unfit.methods import METHODS


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = np.where(X[:, 0] > 0, "yes", "no").astype(object)
    y[:3] = "rare"
    return X, y


def model(method="fisher", **changes):
    return unfit.LogisticRegression(method, **{"epochs": 3, "random_state": 0, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sigma": -1.0}, "'sigma' parameter .* Got -1.0"),
        ({"l2": 0.0}, "'l2' parameter .* Got 0.0"),
        ({"l2": -2.0}, "'l2' parameter .* Got -2.0"),
        ({"batch_size": 0}, "'batch_size' parameter .* Got 0"),
        ({"deletion_batch_size": 0}, "'deletion_batch_size' parameter .* Got 0"),
        ({"burn_in": -1}, "'burn_in' parameter .* Got -1"),
        ({"period": 0}, "'period' parameter .* Got 0"),
        ({"epochs": 0}, "'epochs' parameter .* Got 0"),
        ({"learning_rate": 0.0}, "'learning_rate' parameter .* Got 0.0"),
        ({"tol": 0.0}, "'tol' parameter .* Got 0.0"),
        ({"method": "amnesia"}, "unknown method 'amnesia'; there are fisher, influence"),
        ({"dtype": "float16"}, "'dtype' parameter .* Got 'float16'"),
        (
            {"method": "deltagrad", "solver": "newton"},
            "'deltagrad' cannot train with solver='newton'",
        ),
    ],
)
def test_parameters(rows, changes, words):
    clf = model(**changes)
    with pytest.raises(ValueError, match=words):
        clf.fit(*rows)
    assert not hasattr(clf, "coef_")


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_not_finite_numbers(rows, bad):
    X = rows[0].copy()
    X[7, 2] = bad
    with pytest.raises(ValueError, match="NaN|infinity"):
        model().fit(X, rows[1])
    clf = model().fit(*rows)
    with pytest.raises(ValueError, match="NaN|infinity"):
        clf.predict(X)


def test_shapes(rows):
    X, y = rows
    clf = model().fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but .* expecting 4"):
        clf.predict(X[:, :3])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model().fit(X, y[:-1])
    with pytest.raises(ValueError, match="0 sample"):
        model().fit(X[:0], y[:0])


def test_one_class(rows):
    with pytest.raises(ValueError, match="one class only .*'yes'"):
        model().fit(rows[0], np.full(60, "yes"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ([60], r"unknown rows \[60\]: rows are numbered 0 to 59"),
        ([-1, 2], r"unknown rows \[-1\]"),
        (list(range(60, 80)), "and 10 more"),
        ([4, 5, 4], r"rows \[4\] are named more than once"),
        ([9], r"rows \[9\] were forgotten already"),
        ([0, 1, 2], r"every remaining row of class \['rare'\]"),
        ([i for i in range(60) if i not in (9, 10)], "names all .* remaining rows"),
        ([1.5], "whole numbers"),
        ([True, False], "a mask says for each of the 60 rows"),
        ([[1, 2]], "whole numbers"),
        ("all", "whole numbers"),
    ],
)
def test_requests(rows, method, request_, words):
    clf = model(method).fit(*rows).unlearn([9, 10])
    before = clf.coef_.copy(), clf.remaining_.copy(), clf._state
    with pytest.raises(ValueError, match=words):
        clf.unlearn(request_)
    np.testing.assert_array_equal(clf.coef_, before[0])
    np.testing.assert_array_equal(clf.remaining_, before[1])
    assert clf._state is before[2]
    clf.unlearn([11])  # and it still works


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_request_is_a_no_op(rows, method):
    clf = model(method, sigma=0.1).fit(*rows)
    before = clf.coef_.copy()
    for nothing in ([], np.empty(0), np.array([], int), ()):
        clf.unlearn(nothing)
    np.testing.assert_array_equal(clf.coef_, before)
    assert clf.n_remaining_ == 60


@pytest.mark.parametrize("verb", ["unlearn", "prepare", "audit", "predict", "remaining_"])
def test_before_fit(rows, verb):
    clf = model()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        if verb == "remaining_":
            _ = clf.remaining_
        else:
            getattr(clf, verb)(*([[0]] if verb in ("unlearn", "predict") else []))


def test_audit_arguments(rows):
    X, y = rows
    clf = model().fit(X, y)
    with pytest.raises(ValueError, match="both X and y"):
        clf.audit(X)
    with pytest.raises(ValueError, match="threshold must be >= 0, got -1"):
        clf.audit(threshold=-1)
    with pytest.raises(ValueError, match="60 rows but y has 3"):
        clf.audit(X, y[:3])
    with pytest.raises(ValueError, match="draws must be >= 1, got 0"):
        clf.audit(draws=0)


def test_a_failed_fit_leaves_the_old_model(rows):
    X, y = rows
    clf = model().fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        clf.fit(X[:, :2], np.full(60, "yes"))
    assert clf.n_features_in_ == 4
    assert clf.unlearn([5]).coef_.shape == (3, 4)
    assert clf.predict(X).shape == (60,)


def test_parameters_set_after_fit_wait_for_the_next_fit(rows):
    X, y = rows
    clf, other = model().fit(X, y), model().fit(X, y)
    other.set_params(deletion_batch_size=-1, l2=5.0, method="deltagrad", fit_intercept=False)
    np.testing.assert_array_equal(clf.unlearn([4]).coef_, other.unlearn([4]).coef_)
    np.testing.assert_array_equal(clf.intercept_, other.intercept_)


def test_a_disk_too_small_for_the_trajectory(rows, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1, 1, 10))
    clf = model("deltagrad")
    with pytest.raises(OSError, match="trajectory needs .* TMPDIR"):
        clf.fit(*rows)
    assert not hasattr(clf, "coef_")


def test_a_failed_unlearn_leaves_the_old_model(rows, monkeypatch):
    clf = model("deltagrad").fit(*rows)
    before = clf.coef_.copy()
    clf._state.spare.take()
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as m:
        m.setattr(shutil, "disk_usage", lambda _: usage(1, 1, 10))
        with pytest.raises(OSError, match="TMPDIR"):
            clf.unlearn([5])
    np.testing.assert_array_equal(clf.coef_, before)
    assert clf.n_remaining_ == 60
    clf.unlearn([5])


def test_sgd_that_diverges_says_so():
    rng = np.random.default_rng(0)
    X = 1e4 * rng.standard_normal((50, 3))
    with pytest.raises(FloatingPointError, match="diverged; lower learning_rate"):
        model(solver="sgd", learning_rate=1e300, epochs=50, dtype="float64").fit(X, X[:, 0] > 0)


@pytest.mark.parametrize("method", ["fisher", "influence", "newton", "retrain"])
@pytest.mark.parametrize(
    ("scale", "dtype", "sparse"),
    [(1e20, "float32", False), (1e160, "float64", False), (1e200, "float64", True)],
)
def test_rows_that_are_too_large_to_be_summed_are_refused(rows, method, scale, dtype, sparse):
    X, y = rows
    X = csr_array(X * scale) if sparse else X * scale
    clf = model(method, dtype=dtype)
    with pytest.raises(CannotTrain, match=r"sums over them are not finite numbers; scale the rows"):
        clf.fit(X, y)
    assert not hasattr(clf, "classes_")


def test_a_step_that_is_not_finite_changes_nothing(rows, monkeypatch):
    clf = model(l2=1e-2).fit(*rows)
    before = clf.coef_.copy()
    with monkeypatch.context() as m:
        m.setattr(
            METHODS["fisher"], "step", lambda self, weights, *_: np.full_like(weights, np.nan)
        )
        with pytest.raises(CannotTrain, match="not finite numbers"):
            clf.unlearn([5])
    np.testing.assert_array_equal(clf.coef_, before)
    assert clf.unlearn([5]).n_remaining_ == 59


def test_a_guide_that_float32_cannot_hold_does_not_lead(rows):
    """Rows of length 1e100: the inverse Hessian is 0 in float32, and the gradient infinite."""
    X, y = rows[0] * 1e100, (rows[0][:, 0] + rows[0][:, 1] ** 2 > 0.5).astype(int)
    exact = {"dtype": "float64", "fit_intercept": False, "l2": 1e198, "tol": 1e90}
    clf = unfit.LogisticRegression("newton", **exact).fit(X, y).unlearn([1, 2])
    again = unfit.LogisticRegression("retrain", **exact)
    again.fit(np.delete(X, [1, 2], axis=0), np.delete(y, [1, 2]))
    np.testing.assert_allclose(clf.coef_, again.coef_, rtol=1e-9)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (lambda y: (y == "yes").astype(int), r"y holds numbers .* the classes of fit are texts"),
        (lambda y: np.char.upper(y.astype(str)), r"none of the classes of fit, which are \['no'"),
        (lambda y: np.where(np.arange(len(y)) == 7, None, y), "row 7 of y has no label"),
        (lambda y: np.where(np.arange(len(y)) == 7, np.nan, y), "row 7 of y has no label"),
        (lambda y: y[:-1], "X has 60 rows but y has 59"),
        (lambda y: y.reshape(30, 2), "1d array"),
    ],
)
def test_labels_that_an_audit_cannot_use(rows, labels, words):
    X, y = rows
    clf = model(l2=1e-2).fit(X, y).unlearn([5])
    with pytest.raises(ValueError, match=words):
        clf.audit(X, labels(y))
    numbers = model(l2=1e-2).fit(X, (y == "yes").astype(int))
    with pytest.raises(ValueError, match="y holds texts"):
        numbers.audit(X, (y == "yes").astype(int).astype(str))
    with pytest.raises(ValueError, match="row 0 of y has no label"):
        numbers.audit(X, np.full(60, np.nan))
    some_unknown = np.where(np.arange(60) == 9, "new", y)
    assert clf.audit(X, some_unknown).accuracy_updated == clf.score(X, some_unknown)


def test_arguments_of_the_wrong_kind_are_named(rows):
    with pytest.raises(ValueError, match="options go by their names, as texts; got 1"):
        model("newton", options={1: 1, "steps": 1}).fit(*rows)
    clf = model(l2=1e-2).fit(*rows)
    for arguments, words in (
        ({"draws": 1.5}, "draws must be a whole number, got 1.5"),
        ({"draws": 0}, "draws must be >= 1, got 0"),
        ({"threshold": "a"}, "threshold must be >= 0, got 'a'"),
        ({"threshold": np.nan}, "threshold must be >= 0, got nan"),
        ({"attack": True, "targets": "a"}, "targets must be a whole number, got 'a'"),
    ):
        with pytest.raises(ValueError, match=words):
            clf.audit(**arguments)
