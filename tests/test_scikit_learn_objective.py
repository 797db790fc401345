"""The same objective as scikit-learn's classifiers: C, the free intercept, weights; and fits."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import linear_model, svm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier

import unfit
from test_weights import same, table

TIGHT = {"dtype": "float64", "tol": 1e-13}
THEIRS = {"tol": 1e-12, "max_iter": 10_000, "solver": "newton-cholesky"}
CLOSE = 1e-6


def sample(seed=0, n=300, classes=2):
    X, y = table(seed, n, classes)
    X[:, 0] += y
    return X, y, np.random.default_rng(seed).uniform(0.1, 3.0, n)


@pytest.mark.parametrize("class_weight", [None, {0: 0.5, 1: 3.0}, "balanced"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_logistic_regression_is_scikit_learns(C, fit_intercept, weighted, class_weight):
    X, y, weights = sample()
    weights = weights if weighted else None
    shared = {"C": C, "fit_intercept": fit_intercept, "class_weight": class_weight}
    ours = unfit.LogisticRegression("retrain", penalize_intercept=False, **shared, **TIGHT)
    theirs = linear_model.LogisticRegression(**shared, **THEIRS)
    ours.fit(X, y, weights)
    same(ours, theirs.fit(X, y, weights), CLOSE)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=CLOSE)
    rows = np.arange(0, 90, 2)
    left = np.delete(np.arange(300), rows)
    frozen = theirs.set_params(class_weight=dict(enumerate(ours.class_weight_)))
    frozen.fit(X[left], y[left], None if weights is None else weights[left])
    same(ours.unlearn(rows), frozen, CLOSE)  # with the same C: it does not shrink with the rows


def test_more_classes_are_scikit_learns_one_vs_rest():
    X, y, _ = sample(1, classes=4)
    ours = unfit.LogisticRegression(C=0.5, penalize_intercept=False, **TIGHT).fit(X, y)
    theirs = OneVsRestClassifier(linear_model.LogisticRegression(C=0.5, **THEIRS)).fit(X, y)
    for c, one in enumerate(theirs.estimators_):
        np.testing.assert_allclose(ours.coef_[c], one.coef_[0], atol=CLOSE)
        np.testing.assert_allclose(ours.intercept_[c], one.intercept_[0], atol=CLOSE)


@pytest.mark.parametrize("class_weight", [None, {0: 0.5, 2: 3.0}, "balanced"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_ridge_is_scikit_learns(classes, fit_intercept, class_weight):
    X, y, weights = sample(2, classes=classes)
    if classes == 2 and isinstance(class_weight, dict):
        class_weight = {0: 0.5}
    shared = {"fit_intercept": fit_intercept, "class_weight": class_weight}
    ours = unfit.RidgeClassifier(C=1 / 7, penalize_intercept=False, **shared, **TIGHT)
    theirs = linear_model.RidgeClassifier(alpha=7.0, solver="cholesky", **shared)
    if class_weight == "balanced":  # theirs counts rows, whatever they weigh
        weights = np.ones(len(y))
    same(ours.fit(X, y, weights), theirs.fit(X, y, weights), CLOSE)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_support_vector_machine_is_scikit_learns(fit_intercept):
    X, y, weights = sample(3)
    theirs = svm.LinearSVC(
        C=0.3, fit_intercept=fit_intercept, dual=False, tol=1e-12, max_iter=100_000
    )
    ours = unfit.LinearSVC(C=0.3, fit_intercept=fit_intercept, **TIGHT)  # theirs penalises it too
    same(ours.fit(X, y, weights), theirs.fit(X, y, weights), CLOSE)
    of_class = {0: 2.0, 1: 0.3}
    same(
        ours.set_params(class_weight=of_class).fit(X, y),
        theirs.set_params(class_weight=of_class).fit(X, y),
        CLOSE,
    )


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    l2=st.floats(1e-3, 1.0),
    free=st.booleans(),
    method=st.sampled_from(["fisher", "influence", "retrain"]),
)
def test_at_a_fixed_number_of_rows_C_is_another_name_for_l2(seed, l2, free, method):  # noqa: N802
    X, y = table(seed)
    shared = {**TIGHT, "penalize_intercept": not free}
    per_row = unfit.LogisticRegression(method, l2=l2, **shared).fit(X, y)
    constant = unfit.LogisticRegression(method, C=1 / (l2 * 80), **shared).fit(X, y)
    same(per_row, constant)
    rows = np.arange(10)
    fresh = clone(constant).fit(np.delete(X, rows, 0), np.delete(y, rows))
    assert abs(np.linalg.norm(constant.unlearn(rows).coef_ - fresh.coef_)) < 0.1
    if method == "retrain":
        same(constant, fresh)
        assert np.abs(per_row.unlearn(rows).coef_ - fresh.coef_).max() > 1e-6


@pytest.mark.parametrize("p", [300, 600])  # fewer rows than columns; iterated corrections
@pytest.mark.parametrize("penalty", [{"C": 2.0}, {"l2": 1e-2}])
def test_a_free_intercept_of_wide_rows_is_scikit_learns(p, penalty):
    rng = np.random.default_rng(0)
    n = 120 if p == 300 else 700
    X = rng.standard_normal((n, p)) / np.sqrt(p)
    y = (X[:, 0] + 0.05 > 0).astype(int)
    ours = unfit.LogisticRegression(penalize_intercept=False, **penalty, **TIGHT).fit(X, y)
    C = penalty.get("C", 1 / (1e-2 * n))
    theirs = linear_model.LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    same(ours, theirs.fit(X, y), 1e-5)
    rows = np.arange(40)
    left = C if "C" in penalty else 1 / (1e-2 * (n - 40))
    fresh = clone(theirs).set_params(C=left).fit(X[40:], y[40:])
    before = np.linalg.norm(ours.coef_ - fresh.coef_)
    assert np.linalg.norm(ours.unlearn(rows).coef_ - fresh.coef_) < 0.05 * before


def test_l2_and_C_together_are_refused():  # noqa: N802
    X, y = table(0)
    with pytest.raises(ValueError, match=r"l2=0.01 and C=2 both say how strong the penalty is"):
        unfit.LogisticRegression(l2=1e-2, C=2.0).fit(X, y)
    search = GridSearchCV(unfit.LogisticRegression(), {"C": [0.1, 10.0]}, cv=2).fit(X, y)
    assert search.best_params_["C"] in (0.1, 10.0)
    assert clone(search.best_estimator_).get_params()["C"] == search.best_params_["C"]


def test_deltagrad_refuses_a_penalty_that_is_not_per_row():
    X, y = table(0)
    with pytest.raises(ValueError, match="give l2 instead of C"):
        unfit.LogisticRegression("deltagrad", C=1.0).fit(X / 9, y)


def test_sgd_trains_with_C_as_with_the_l2_it_stands_for():  # noqa: N802
    X, y = table(0)
    shared = {"solver": "sgd", "epochs": 5, "random_state": 0}
    one = unfit.LogisticRegression(C=1 / (1e-3 * 80), **shared).fit(X / 9, y)
    other = unfit.LogisticRegression(l2=1e-3, **shared).fit(X / 9, y)
    same(one, other)
    assert one.n_iter_ == 5


# --- certificates --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [unfit.LogisticRegression, unfit.LinearSVC])
@pytest.mark.parametrize("penalty", [{"C": 0.5}, {"l2": 1e-2}])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_certificate_bounds_the_distance_to_the_optimum(kind, penalty, weighted):
    X, y, weights = sample(5)
    weights = weights if weighted else None
    clf = kind(epsilon=1.0, noise=1e-3, dtype="float64", **penalty).fit(X, y, weights)
    gone = np.zeros(300, bool)
    for rows in ([1], np.arange(10, 40), [50, 51]):
        gone[rows] = True
        found = clf.unlearn(rows).certificate_
        left = None if weights is None else weights[~gone]
        exact = kind("retrain", **penalty, **TIGHT).fit(X[~gone], y[~gone], left)
        apart = np.linalg.norm(clf._state.centre - exact._state.weights)
        assert apart <= found.distance
        total = np.count_nonzero(~gone) if left is None else left.sum()
        ridge = 2.0 if "C" in penalty else 1e-2 * total
        assert found.l2 * total == pytest.approx(ridge)
        assert found.mu == pytest.approx((found.distance + found.tol * total / ridge) / 1e-3)
    assert clf.attack(draws=2000).verdict.startswith("not refuted")


def test_what_a_certificate_cannot_cover_is_refused():
    X, y = table(0)
    with pytest.raises(ValueError, match="intercept that is not penalised can move without bound"):
        unfit.LogisticRegression(epsilon=1.0, penalize_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="which no certificate covers"):
        unfit.LogisticRegression(epsilon=1.0, class_weight="balanced").fit(X, y)
    unfit.LogisticRegression(epsilon=1.0, l2=1e-2, class_weight={0: 2.0}).fit(X, y)


# --- fits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fisher", "influence", "retrain"])
def test_a_warm_start_goes_on_from_the_last_weights(method):
    X, y = table(0, n=400)
    cold = unfit.LogisticRegression(method, l2=1e-3, tol=1e-10, dtype="float64").fit(X, y)
    warm = clone(cold).set_params(warm_start=True).fit(X, y)
    same(cold, warm)
    first = warm.n_iter_
    assert warm.fit(X, y).n_iter_ <= 1 < first
    same(cold, warm)
    more = warm.fit(X[:390], y[:390])
    assert more.n_iter_ < first
    same(more, clone(cold).fit(X[:390], y[:390]))
    other = warm.fit(X[:, :2], y)  # of another shape: from nothing
    same(other, clone(cold).fit(X[:, :2], y))


def test_a_warm_start_of_sgd_goes_on_where_it_was():
    X, y = table(0, n=200)
    shared = {"solver": "sgd", "epochs": 3, "learning_rate": 1e-9, "random_state": 0}
    clf = unfit.LogisticRegression(warm_start=True, **shared).fit(X / 9, y)
    first = clf.coef_.copy()
    np.testing.assert_allclose(clf.set_params(random_state=1).fit(X / 9, y).coef_, first, atol=1e-6)
    clf.set_params(warm_start=False).fit(X / 9, y)
    assert np.abs(clf.coef_ - first).max() > 0.1


def test_training_that_does_not_converge_says_so_with_figures():
    X, y = table(0)
    with pytest.warns(
        ConvergenceWarning,
        match=r"stopped after \d+ steps where the gradient is .* "
        r"above tol=1e-30: scale the rows",
    ) as caught:
        clf = unfit.LogisticRegression(tol=1e-30).fit(X, y)
    assert caught[0].filename == __file__
    assert clf.n_iter_ >= 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert unfit.LogisticRegression().fit(X, y).n_iter_ >= 1


def test_a_penalty_per_row_is_blind_to_doubling_the_data_and_a_constant_one_is_not():
    X, y = table(0)
    for parameters, blind in (({"l2": 1e-2}, True), ({"C": 1.0}, False)):
        clf = unfit.LogisticRegression(**parameters, **TIGHT)
        once, twice = clone(clf).fit(X, y), clone(clf).fit(np.tile(X, (2, 1)), np.tile(y, 2))
        assert np.allclose(once.coef_, twice.coef_, atol=1e-8) == blind
