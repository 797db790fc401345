"""The scikit-learn face: scikit-learn's own checks, inputs of all kinds, and the added verbs."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression as Theirs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import unfit
from unfit.core.objective import Rows
from unfit.methods import METHODS
from unfit.methods.newton import FURTHER
from unfit.methods.onestep import STREAM_TOLERANCE
from unfit.step_size import largest_curvature

QUICK = {"epochs": 20, "batch_size": 64}


def model(method="fisher", **changes):
    return unfit.LogisticRegression(method, **QUICK, **{"random_state": 0, **changes})


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - np.round(X.mean(axis=0), 1)) / 2.0 ** np.round(np.log2(X.std(axis=0)))
    return unfit.MaxNormScaler().fit_transform(X), y


def refused(estimator):
    """Checks of scikit-learn that a mini-batch cannot pass: it counts rows, not their weights."""
    if getattr(estimator, "method", None) != "deltagrad":
        return {}
    weighted = (
        "check_sample_weights_list",
        "check_sample_weights_not_overwritten",
        "check_sample_weight_equivalence_on_dense_data",
        "check_class_weight_classifiers",
    )
    return dict.fromkeys(weighted, "DELTAGRAD trains by SGD, which takes no sample weights")


FEW = ("fisher", "deltagrad", "newton")  # methods that meet scikit-learn in the quick tier


@parametrize_with_checks(
    [
        *(model(name, tol=1e-12) for name in FEW),
        unfit.LogisticRegression(C=1.0, penalize_intercept=False, tol=1e-12),
        unfit.LinearSVC(dtype="float64", tol=1e-12),
        unfit.MaxNormScaler(),
    ],
    expected_failed_checks=refused,
)
@pytest.mark.filterwarnings("ignore::unfit.UnscaledRowsWarning")  # blobs of length 10
def test_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        *(model(name, tol=1e-12) for name in METHODS if name not in FEW),
        model(dtype="float64", tol=1e-12),
        unfit.RidgeClassifier(dtype="float64", tol=1e-12),
    ],
    expected_failed_checks=refused,
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::unfit.UnscaledRowsWarning")
def test_scikit_learn_and_the_other_methods(estimator, check):
    check(estimator)


def test_the_optimum_is_scikit_learns(cancer):
    X, y = cancer
    ours = model(dtype="float64", fit_intercept=False, l2=1e-3, tol=1e-10).fit(X, y)
    theirs = Theirs(C=1 / (1e-3 * len(y)), fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs.fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_unlearn_moves_towards_the_retrained_model(cancer, method):
    X, y = cancer
    rows = np.flatnonzero(y == 1)[:40]
    clf = model(method, l2=1e-3).fit(X, y)
    before = clf.coef_.copy()
    assert clf.unlearn(rows) is clf
    assert clf.n_remaining_ == len(y) - 40
    assert not clf.remaining_[rows].any()
    assert clf.remaining_.sum() == clf.n_remaining_
    assert not np.array_equal(before, clf.coef_)
    clf.unlearn([0]).prepare().unlearn([1])
    assert clf.n_remaining_ == len(y) - 42
    assert clf.predict(X).shape == y.shape


def test_retrain_equals_fitting_the_rest(cancer):
    X, y = cancer
    rows = np.arange(0, 200, 3)
    settings = {"dtype": "float64", "l2": 1e-3, "tol": 1e-11}
    forgot = model("retrain", **settings).fit(X, y).unlearn(rows)
    fresh = model("retrain", **settings).fit(np.delete(X, rows, 0), np.delete(y, rows))
    np.testing.assert_allclose(forgot.coef_, fresh.coef_, rtol=1e-6)
    np.testing.assert_allclose(forgot.intercept_, fresh.intercept_, rtol=1e-6)


def test_string_labels_and_three_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    clf = model(l2=1e-3).fit(X, names).unlearn([0, 60, 120])
    assert clf.coef_.shape == (3, 4)
    assert clf.score(X, names) > 0.9
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.classes_[proba.argmax(axis=1)], clf.predict(X))


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_tables_with_names(cancer, kind):
    X, y = cancer
    columns = {f"c{i}": X[:, i] for i in range(5)}
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind](columns)
    clf = model().fit(table, y)
    assert list(clf.feature_names_in_) == list(columns)
    plain = model().fit(X[:, :5], y)
    np.testing.assert_array_equal(clf.coef_, plain.coef_)
    np.testing.assert_array_equal(
        clf.unlearn([3]).predict(table), plain.unlearn([3]).predict(X[:, :5])
    )


def test_pipeline_grid_search_and_clone(cancer):
    X, y = cancer
    pipeline = make_pipeline(unfit.MaxNormScaler(), model())
    grid = {
        "logisticregression__l2": [1e-4, 1e-1],
        "logisticregression__method": ["fisher", "retrain"],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    last = search.best_estimator_[-1]
    assert clone(last).get_params() == last.get_params()


@pytest.mark.parametrize("method", METHODS)
def test_pickled_models_go_on_forgetting(cancer, method):
    X, y = cancer
    clf = model(method).fit(X, y).unlearn([5])
    copy = pickle.loads(pickle.dumps(clf))
    mine, theirs = clf.unlearn([6, 7]).coef_, copy.unlearn([6, 7]).coef_
    if method in ("fisher", "influence"):  # each goes on until it is so near the optimum
        atol = 2 * STREAM_TOLERANCE * clf.tol / clf.l2
        np.testing.assert_allclose(theirs, mine, rtol=0, atol=atol)
    elif method == "newton":  # a pickle holds no inverse: another way to the same residual
        atol = 2 * FURTHER * clf.tol / clf.l2
        np.testing.assert_allclose(theirs, mine, rtol=0, atol=atol)
    else:
        np.testing.assert_array_equal(theirs, mine)


def test_the_rows_are_kept_by_reference_and_never_written(cancer):
    X = np.ascontiguousarray(cancer[0], np.float32)
    X.flags.writeable = False
    clf = model().fit(X, cancer[1]).unlearn([1, 2])
    assert clf._data.rows.X is X


def test_what_remains_is_told_as_it_was(cancer):
    """A mask that somebody keeps does not change with the next request."""
    clf = model().fit(*cancer)
    before = clf.remaining_
    clf.unlearn([0])
    assert before.all()
    assert not clf.remaining_[0]
    with pytest.raises(ValueError, match="read-only"):
        before[0] = False


@pytest.mark.parametrize("kind", [unfit.LogisticRegression, unfit.RidgeClassifier, unfit.LinearSVC])
def test_a_notebook_shows_every_kind_of_model(cancer, kind):
    clf = kind()
    for shown in (clf, clf.fit(*cancer), clf.without_data()):
        assert kind.__name__ in shown._repr_html_()


def test_attributes_that_need_rows_are_absent_without_them(cancer):
    bare = model().fit(*cancer).without_data()
    for name in ("remaining_", "engine_", "engine_reason_"):
        assert not hasattr(bare, name)
        with pytest.raises(ValueError, match=f"{name} needs the rows of fit, and this copy has"):
            getattr(bare, name)
        assert not hasattr(model(), name)
        with pytest.raises(NotFittedError):
            getattr(model(), name)


def test_random_state_of_every_kind(cancer):
    X, y = cancer
    seeds = [7, np.random.RandomState(7), np.random.default_rng(7), None]
    models = [model(sigma=0.1, random_state=s).fit(X, y).coef_ for s in seeds]
    again = model(sigma=0.1, random_state=7).fit(X, y).coef_
    assert np.array_equal(models[0], again)
    assert not np.array_equal(models[3], again)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sigma", [0.0, 0.05])
def test_audit(cancer, method, sigma):
    X, y = cancer
    clf = model(method, sigma=sigma, l2=1e-3, period=2).fit(X[:400], y[:400])
    assert clf.audit().acc_dis is None
    clf.unlearn(np.flatnonzero(y[:400] == 0)[:50])
    weights = clf.coef_.copy()
    audit = clf.audit(X[400:], y[400:], threshold=100, random_state=1)
    np.testing.assert_array_equal(weights, clf.coef_)
    assert audit.n_deleted == 50
    assert audit.n_remaining == 350
    assert audit.passed
    assert 0 <= audit.acc_err <= 100
    assert audit.draws == (5 if sigma else 1)
    assert (audit.acc_dis_spread is None) == (sigma == 0)
    text = str(audit)
    for word in (
        "AccErr",
        "AccDis",
        "weight distance",
        "residual",
        "predictions differ",
        "verdict",
    ):
        assert word in text
    if method == "retrain" and not sigma:
        assert audit.acc_dis == 0
        assert audit.weight_distance < 1e-5
        assert audit.residual < 1e-7
    again = clf.audit(X[400:], y[400:], threshold=100, random_state=1)
    assert audit == again


def test_deltagrad_keeps_its_head_on_rows_of_any_scale():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(unfit.UnscaledRowsWarning):
        clf = unfit.LogisticRegression("deltagrad", dtype="float64", random_state=0).fit(X, y)
    before = clf.score(X, y)
    assert clf.unlearn([0]).score(X, y) > before - 0.1


@pytest.mark.parametrize("solver", ["deltagrad", "retrain"])
def test_rows_too_long_for_sgd_are_said_to_be_so(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 20))
    y = (X @ rng.standard_normal(20) / 4 + rng.logistic(size=4000) > 0).astype(int)
    sgd = unfit.LogisticRegression(solver, solver="sgd", epochs=20, random_state=0)
    best = unfit.LogisticRegression("retrain").fit(X, y).score(X, y)
    with pytest.warns(
        unfit.UnscaledRowsWarning, match=r"MaxNormScaler.*learning rate below 0\.4\d"
    ):
        assert sgd.fit(4 * X, y).score(4 * X, y) < best - 0.03
    short = unfit.MaxNormScaler().fit_transform(X)
    assert sgd.fit(short, y).score(short, y) > best - 0.03  # and nothing is said
    slow = clone(sgd).set_params(learning_rate=0.1)
    assert slow.fit(4 * X, y).score(4 * X, y) > best - 0.03


def test_a_replay_without_a_bound_on_its_steps_is_warned_of(cancer):
    X, y = cancer
    for kind in (unfit.RidgeClassifier, unfit.LinearSVC):
        clf = kind("deltagrad", **QUICK, learning_rate=0.3)
        with pytest.warns(unfit.UnboundedReplayWarning, match="may end farther from a retraining"):
            clf.fit(X, y)
        clf.set_params(period=1).fit(X, y)  # without a warning, as all other tests
    model("deltagrad").fit(X, y)


def test_a_short_replay_needs_a_short_period():
    """What docs/estimator.md says of 100 rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 5)) / 4
    y = (X[:, 0] + 0.3 * rng.standard_normal(100) > 0).astype(int)

    def left(period):
        clf = unfit.LogisticRegression("deltagrad", period=period, random_state=0)
        return clf.fit(X, y).unlearn([1, 2, 3]).audit().influence_left

    assert left(50) > 0.5
    assert left(10) < 0.02
    assert left(2) < 0.001


def test_the_largest_curvature_is_that_of_the_hessian():
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 30.0):
        X = scale * rng.standard_normal((500, 12)) @ rng.standard_normal((12, 12))
        dense = np.column_stack([X, np.ones(500)])
        exact = np.linalg.eigvalsh(dense.T @ dense / 500)[-1] / 4
        found = largest_curvature(Rows(X, np.zeros(500, np.int32), True))
        assert 0.95 * exact < found <= exact * (1 + 1e-9)


def test_an_audit_says_which_rows_it_measured_on(cancer):
    X, y = cancer
    clf = model("fisher", l2=1e-3).fit(X[:400], y[:400])
    clf.unlearn([3])
    own = clf.audit()
    assert own.accuracy_updated == clf.score(np.delete(X[:400], 3, 0), np.delete(y[:400], 3))
    assert "399 training rows remain, 1 was deleted" in str(own)
    assert "training accuracy" in str(own)
    assert "of the remaining training rows" in str(own)
    assert "test" not in str(own)
    held_out = str(clf.audit(X[400:], y[400:]))
    assert "test accuracy" in held_out
    assert "of test rows" in held_out
    noisy = model("fisher", l2=1e-3, sigma=0.1).fit(X[:400], y[:400])
    noisy.unlearn([3])
    assert str(noisy.audit(X[400:], y[400:])).count("(retrained without noise") == 3


def test_audit_verdict_against_the_threshold(cancer):
    X, y = cancer
    clf = model("influence", l2=1e-4).fit(X, y)
    clf.unlearn(np.flatnonzero(y == 0)[:40])
    audit = clf.audit(threshold=0)
    assert not audit.passed
    assert audit.verdict.startswith("not forgotten: predicted probabilities differ")
    assert clf.audit(threshold=100).verdict.startswith("forgotten")


def test_max_norm_scaler_uses_one_factor_of_the_training_rows():
    X = np.array([[3.0, 4.0], [0.0, 1.0]])
    assert unfit.MaxNormScaler().fit(X).scale_ == 8  # 5, rounded up to a power of two
    scaler = unfit.MaxNormScaler(norm=5.0).fit(X)
    assert scaler.scale_ == 5
    np.testing.assert_allclose(scaler.transform([[6.0, 8.0]]), [[1.2, 1.6]])
    with pytest.raises(ValueError, match="norm must be a length above 0, got -1"):
        unfit.MaxNormScaler(norm=-1).fit(X)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), X)
    assert unfit.MaxNormScaler().fit(np.zeros((2, 2))).scale_ == 1
