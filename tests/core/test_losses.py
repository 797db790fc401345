"""Ridge regression and the support vector machine against scikit-learn's, and what they unlearn."""

import numpy as np
import pytest
import sklearn.linear_model
import sklearn.svm

import unfit
from unfit.core.losses import LOGISTIC, Loss, SquaredError

L2 = 1e-2


def problem(n_classes, n=240, p=6):
    rng = np.random.default_rng(n_classes)
    X = rng.standard_normal((n, p)) / np.sqrt(p)
    y = (
        X @ rng.standard_normal((p, n_classes)) + 0.3 * rng.standard_normal((n, n_classes))
    ).argmax(1)
    return X, y


def ours(kind, **parameters):
    return kind(l2=L2, dtype="float64", tol=1e-12, random_state=0, **parameters)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_ridge_is_that_of_scikit_learn(n_classes):
    X, y = problem(n_classes)
    clf = ours(unfit.RidgeClassifier, fit_intercept=False).fit(X, y)
    goal = sklearn.linear_model.RidgeClassifier(alpha=L2 * len(X), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(clf.coef_, np.atleast_2d(goal.coef_), rtol=1e-8)
    np.testing.assert_array_equal(clf.predict(X), goal.predict(X))
    assert not hasattr(clf, "predict_proba")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_support_vector_machine_is_that_of_scikit_learn(n_classes):
    X, y = problem(n_classes)
    clf = ours(unfit.LinearSVC).fit(X, y)
    goal = sklearn.svm.LinearSVC(C=1 / (L2 * len(X)), dual=False, tol=1e-10, max_iter=10_000)
    goal.fit(X, y)
    np.testing.assert_allclose(clf.coef_, goal.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(clf.intercept_, goal.intercept_, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["fisher", "influence"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_step_unlearns_ridge_exactly(n_classes, method):
    X, y = problem(n_classes)
    gone = np.arange(0, 240, 5)
    clf = ours(unfit.RidgeClassifier, method=method).fit(X, y).unlearn(gone)
    again = ours(unfit.RidgeClassifier).fit(np.delete(X, gone, axis=0), np.delete(y, gone))
    np.testing.assert_allclose(clf.coef_, again.coef_, rtol=1e-9, atol=1e-11)
    assert clf.audit().outcome == "forgotten"


def test_a_support_vector_machine_forgets():
    X, y = problem(2)
    clf = ours(unfit.LinearSVC).fit(X, y)
    before = clf.coef_.copy()
    clf.unlearn(np.arange(12))
    again = ours(unfit.LinearSVC).fit(X[12:], y[12:])
    assert np.linalg.norm(clf.coef_ - again.coef_) < 0.1 * np.linalg.norm(before - again.coef_)


def test_sgd_and_deltagrad_minimise_another_loss():
    X, y = problem(2)
    exact = ours(unfit.RidgeClassifier).fit(X, y)
    settings = {"epochs": 400, "batch_size": 24, "learning_rate": 0.05}
    clf = ours(unfit.RidgeClassifier, method="deltagrad", period=5, **settings)
    with pytest.warns(unfit.UnboundedReplayWarning):
        clf.fit(X, y)
    assert np.linalg.norm(clf.coef_ - exact.coef_) < 0.1 * np.linalg.norm(exact.coef_)
    clf.unlearn([3, 4, 5])
    assert clf.n_remaining_ == 237


def test_a_loss_that_changed_is_compiled_anew():
    class Other(SquaredError):
        @staticmethod
        def curvature(margin, target):
            return 0.0 * margin + 2.0

    kinds = {SquaredError().compiled.dtype, Other().compiled.dtype}
    assert len(kinds) == 2
    assert SquaredError().compiled.dtype in kinds
    assert SquaredError() == SquaredError()
    assert SquaredError() != LOGISTIC


def test_a_classifier_of_another_loss_is_a_subclass():
    class Squares(unfit.LinearClassifier):
        loss: Loss = SquaredError()

    X, y = problem(2)
    np.testing.assert_array_equal(
        ours(Squares).fit(X, y).coef_, ours(unfit.RidgeClassifier).fit(X, y).coef_
    )
