"""The estimator on sparse rows: what it does on the same rows when they are dense, without them."""

import pickle
import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, Normalizer

import unfit
from unfit.errors import Unavailable
from unfit.fitted_steps import sign_of_fitted_step

ESTIMATORS = [unfit.LogisticRegression, unfit.RidgeClassifier, unfit.LinearSVC]
METHODS = ["fisher", "influence", "retrain"]
EXACT = {"l2": 1e-3, "tol": 1e-13}


def table(n=150, p=40, classes=3, seed=0, density=0.2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < density)
    X[3], X[:, 5] = 0.0, 0.0  # a row and a column of zeros
    scores = X @ rng.standard_normal((p, classes)) + 0.3 * rng.standard_normal((n, classes))
    return X.astype(np.float32).astype(np.float64), scores.argmax(axis=1)


def weights(clf):
    return np.column_stack([clf.coef_, clf.intercept_])


def apart(one, other):
    return np.linalg.norm(weights(one) - weights(other)) / np.linalg.norm(weights(other))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sparse_rows_give_the_weights_of_dense_ones(estimator, method, classes):
    X, y = table(classes=classes)
    rows = np.arange(0, 30, 2)
    for intercept in (True, False):
        given = {**EXACT, "fit_intercept": intercept}
        dense = estimator(method, dtype="float64", **given).fit(X, y).unlearn(rows)
        for dtype in ("float32", "float64"):
            ours = estimator(method, dtype=dtype, **given).fit(sparse.csr_array(X), y)
            ours.unlearn(rows)
            assert apart(ours, dense) <= 1e-8
            assert ours.n_remaining_ == 135


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 100),
    density=st.sampled_from([0.05, 0.3]),
    rows=st.lists(st.integers(0, 59), max_size=20, unique=True),
    classes=st.sampled_from([2, 3]),
)
def test_any_rows_can_leave(seed, density, rows, classes):
    X, y = table(60, 25, classes, seed, density)
    kept = np.setdiff1d(np.arange(60), rows)
    if len(np.unique(y[kept])) < len(np.unique(y)) or len(np.unique(y)) < 2:
        return
    made = [unfit.LogisticRegression("retrain", dtype="float64", **EXACT) for _ in range(2)]
    ours = made[0].fit(sparse.csr_array(X), y).unlearn(rows)
    again = made[1].fit(sparse.csr_array(X[kept]), y[kept])
    assert apart(ours, again) <= 1e-8


def test_the_identities_of_unlearning_hold():
    X, y = table()
    S, doubled = sparse.csr_array(X), sparse.csr_array(np.concatenate([X, X[:10]]))

    def fitted(rows, labels):
        return unfit.LogisticRegression("retrain", dtype="float64", **EXACT).fit(rows, labels)

    once = fitted(S, y)
    twice = fitted(doubled, np.concatenate([y, y[:10]])).unlearn(range(150, 160))
    assert apart(twice, once) <= 1e-8  # a row added twice and deleted once
    one = fitted(S, y).unlearn([4, 9, 30, 31])
    two = fitted(S, y).unlearn([9, 31]).unlearn([30, 4])
    assert apart(two, one) <= 1e-8  # in one request or in two
    order = np.random.default_rng(1).permutation(150)
    other = fitted(S[order], y[order])
    assert apart(other, once) <= 1e-8  # rows in another order
    before = weights(once)
    assert np.array_equal(weights(once.unlearn([])), before)  # nothing deleted changes nothing


def test_rows_as_bad_as_scipy_allows_give_the_weights_of_dense_ones():
    """Empty rows, zeros that are stored, values in two parts and in no order, 64-bit indices."""
    X, y = table()
    X[[4, 17, 149]] = 0.0
    rng = np.random.default_rng(3)
    parts = []
    for row in X:
        columns = np.concatenate([np.flatnonzero(row), np.flatnonzero(row), rng.integers(0, 5, 2)])
        values = np.concatenate([0.25 * row[row != 0], 0.75 * row[row != 0], np.zeros(2)])
        order = rng.permutation(len(columns))
        parts.append((columns[order].astype(np.int64), values[order]))
    indptr = np.cumsum([0, *(len(columns) for columns, _ in parts)])
    data, indices = (np.concatenate([p[at] for p in parts]) for at in (1, 0))
    given = sparse.csr_array((data, indices, indptr), shape=X.shape)
    for method in METHODS:
        made = [unfit.LogisticRegression(method, dtype="float64", **EXACT) for _ in range(2)]
        ours = made[0].fit(given, y).unlearn([3, 4, 17]).unlearn([149, 20])
        dense = made[1].fit(X, y).unlearn([3, 4, 17]).unlearn([149, 20])
        assert apart(ours, dense) <= 1e-8
    assert len(given.data) == len(data)  # the caller's matrix is as it was
    for again in ([3], [5, 5]):
        with pytest.raises(ValueError, match="forgotten already|more than once"):
            ours.unlearn(again)
    with pytest.raises(ValueError, match="every remaining row of class"):
        ours.unlearn(np.setdiff1d(np.flatnonzero(y == y[3]), [3, 4, 17, 149, 20]))


FORMATS = ["csr_matrix", "csr_array", "csc_array", "coo_matrix", "lil_array", "dok_array"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_taken(name):
    X, y = table()
    made = getattr(sparse, name)(X)
    clf = unfit.LogisticRegression(dtype="float64").fit(made, y)
    expected = unfit.LogisticRegression(dtype="float64").fit(sparse.csr_array(X), y)
    assert np.array_equal(weights(clf), weights(expected))
    assert np.array_equal(clf.predict(made), clf.predict(X))
    np.testing.assert_allclose(clf.decision_function(made), clf.decision_function(X), atol=1e-12)


def test_rows_that_are_not_in_canonical_form_are_summed_up_in_a_copy():
    indptr, columns = np.array([0, 3, 4, 6]), np.array([2, 0, 2, 1, 1, 0])
    X = sparse.csr_array((np.array([1.0, 2, 3, 4, 5, 6]), columns, indptr), shape=(3, 3))
    before = X.indices.copy(), X.data.copy()
    ours = unfit.LogisticRegression(dtype="float64").fit(X, [0, 1, 0])
    dense = unfit.LogisticRegression(dtype="float64").fit(X.toarray(), [0, 1, 0])
    assert apart(ours, dense) <= 1e-5
    assert np.array_equal(X.indices, before[0])
    assert np.array_equal(X.data, before[1])


def test_a_pickle_holds_the_rows_that_remain():
    X, y = table()
    X[7, 11] = 77.125
    clf = unfit.LogisticRegression("retrain", **EXACT).fit(sparse.csr_array(X), y).unlearn([7, 8])
    kept = pickle.dumps(clf)
    assert np.float32(77.125).tobytes() not in kept
    copy = pickle.loads(kept)
    assert copy._data.erased.sum() == 2
    assert apart(copy.unlearn([20]), clf.unlearn([20])) <= 1e-8
    with pytest.raises(ValueError, match=r"rows \[7\] were forgotten already"):
        copy.unlearn([7])


def test_a_copy_without_data_predicts():
    X, y = table()
    clf = unfit.LogisticRegression().fit(sparse.csr_array(X), y)
    bare = clf.without_data()
    assert np.array_equal(bare.predict(sparse.csr_array(X)), clf.predict(X))
    with pytest.raises(ValueError, match="this copy has none"):
        bare.unlearn([1])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_releases_are_certified(estimator, classes):
    X, y = table(classes=classes)
    clf = estimator(epsilon=1.0, dtype="float64", l2=1e-2).fit(sparse.csr_array(X), y)
    clf.unlearn([3, 14])
    said = clf.certificate_
    assert said.epsilon == 1.0
    assert said.deleted == 2
    exact = estimator("retrain", dtype="float64", l2=1e-2, tol=1e-13)
    kept = np.setdiff1d(np.arange(len(y)), [3, 14])
    optimum = weights(exact.fit(X[kept], y[kept]))
    assert np.linalg.norm(clf._state.centre - optimum) <= said.distance


@pytest.mark.parametrize("sigma", [0.0, 0.01])
@pytest.mark.parametrize("method", METHODS)
def test_an_audit_says_of_sparse_rows_what_it_says_of_dense_ones(method, sigma):
    X, y = table()
    audits = []
    for rows in (X, sparse.csr_array(X)):
        clf = unfit.LogisticRegression(
            method, dtype="float64", l2=1e-3, sigma=sigma, random_state=0
        ).fit(rows, y)
        clf.unlearn([3, 14, 15])
        audits.append(clf.audit(random_state=0))
    assert audits[0].outcome == audits[1].outcome == "forgotten"
    if method == "fisher":  # INFLUENCE minimises with noise, and RETRAIN leaves next to nothing
        np.testing.assert_allclose(audits[0].influence_left, audits[1].influence_left, rtol=1e-3)


def test_an_audit_of_a_model_that_did_not_forget_says_so():
    X, y = table()
    clf = unfit.LogisticRegression(dtype="float64", l2=1e-3).fit(sparse.csr_array(X), y)
    old = clf._state
    clf.unlearn([3, 14, 15])
    clf._state = replace(old, n=clf._state.n)
    assert clf.audit(sparse.csr_array(X), y).outcome == "not forgotten"


@pytest.mark.slow
def test_a_certified_model_is_attacked():
    X, y = table(300)
    clf = unfit.LogisticRegression(epsilon=1.0, dtype="float64", l2=1e-2)
    clf.fit(sparse.csr_array(X), y).unlearn([3, 14, 15])
    found = clf.audit(attack=True, splits=16, targets=2).attack
    assert found.release is not None
    assert found.release.found.epsilon <= 1.0
    shaped = unfit.LogisticRegression(sigma=0.1, l2=1e-2).fit(sparse.csr_array(X), y)
    note = shaped.unlearn([3]).audit(attack=True, splits=16, targets=2).attack.note
    assert note == "the noise has the shape of the Hessian, which is not made of sparse rows"


def test_noise_of_fishers_shape_is_drawn_by_products():
    """The same noise as on dense rows: the same numbers, given the same shape."""
    X, y = table()
    released = []
    for rows in (X, sparse.csr_array(X)):
        clf = unfit.LogisticRegression(dtype="float64", sigma=0.1, random_state=3, **EXACT).fit(
            rows, y
        )
        released.append(clf.unlearn([4, 5]))
    assert apart(released[1], released[0]) <= 1e-7
    noise = released[1]._state.weights - released[1]._state.centre
    assert np.linalg.norm(noise) > 0.01


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"method": "deltagrad"}, "The method 'deltagrad' .* mini-batches.* 'sparse' cannot .*"),
        ({"solver": "sgd"}, "The method 'fisher' with the solver 'sgd' .*X.toarray()"),
        ({"engine": "cpu"}, "The engine 'cpu' holds dense rows and these are sparse; leave"),
    ],
)
def test_what_sparse_rows_cannot_have_is_refused_in_a_sentence(settings, said):
    X, y = table()
    clf = unfit.LogisticRegression(**settings)
    with pytest.raises(Unavailable, match=said):
        clf.fit(sparse.csr_array(X), y)
    assert not hasattr(clf, "n_features_in_")
    with pytest.raises(Unavailable, match="The engine 'sparse' holds sparse rows and these are"):
        unfit.LogisticRegression(engine="sparse").fit(X, y)


def test_bad_values_are_refused():
    X, y = table()
    S = sparse.csr_array(X)
    S.data[17] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        unfit.LogisticRegression().fit(S, y)


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "csr_matrix"])
def test_places_outside_the_matrix_are_refused_wherever_rows_are_taken(kind):
    """SciPy does not look at them, and would read or write beyond its arrays."""
    X, y = table()
    clf = unfit.LogisticRegression().fit(getattr(sparse, kind)(X), y)
    line, other = ("column", "row") if kind == "csc_array" else ("row", "column")
    for part, at, value, words in (
        ("indices", 7, 10**6, rf"{line} \d of X has a {other} index outside 0 to"),
        ("indices", 7, -5, rf"{line} \d of X has a {other} index outside 0 to"),
        ("indptr", 5, 10**7, f"{line} 5 of X ends before it begins"),
        ("indptr", -1, 10**7, "end beyond the values that are stored"),
    ):
        broken = getattr(sparse, kind)(X)
        getattr(broken, part)[at] = value
        for verb in (clf.predict, clf.decision_function, clf.predict_proba):
            with pytest.raises(ValueError, match=words):
                verb(broken)
        for verb in (unfit.LogisticRegression().fit, clf.audit):
            with pytest.raises(ValueError, match=words):
                verb(broken, y)


def test_a_pipeline_passes_sparse_rows_on():
    X, y = table()
    S = sparse.csr_array(X)
    steps = [("length", Normalizer()), ("scale", MaxAbsScaler())]
    clf = unfit.LogisticRegression("retrain", dtype="float64", **EXACT)
    made = unfit.Pipeline([*steps, ("classify", clf)]).fit(S, y)
    made.unlearn([3, 14])
    kept = np.setdiff1d(np.arange(150), [3, 14])
    again = unfit.Pipeline([*steps, ("classify", unfit.LogisticRegression(**clf.get_params()))])
    again.fit(S[kept], y[kept])
    assert apart(made.steps[-1][1], again.steps[-1][1]) <= 1e-8
    assert made.audit(S, y).outcome == "forgotten"
    made.steps[1] = ("scale", MaxAbsScaler().fit(100 * S))
    assert made.audit().remembering == ("scale",)


def test_steps_that_change_nothing_are_seen():
    X, y = table()
    S = sparse.csr_array(np.abs(X))
    made = unfit.Pipeline([("length", Normalizer()), ("c", unfit.LogisticRegression("retrain"))])
    made.fit(S, y)
    before = made.steps[-1][1]._data
    made.unlearn([3, 14])
    assert made.steps[-1][1]._data is before  # the classifier unlearned, and was not trained anew


def test_a_longest_row_of_length_one_is_a_sign_of_a_fitted_step():
    X, _ = table()
    lengths = np.sqrt((X**2).sum(axis=1))
    assert sign_of_fitted_step(sparse.csr_array(X / lengths.max())) is not None
    each = X / np.where(lengths > 0, lengths, 1)[:, None]
    assert sign_of_fitted_step(sparse.csr_array(each)) is None
    assert sign_of_fitted_step(sparse.csr_array(X)) is None
    assert sign_of_fitted_step(sparse.csr_array((3, 2))) is None


@pytest.mark.parametrize("classes", [2, 3])
def test_at_most_two_and_a_half_times_the_rows_are_in_memory(classes):
    """Of 80 numbers each; arrays of a number for every row and problem come on top."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((15_000, 1_000), density=0.08, rng=rng, dtype=np.float32, format="csr")
    y = np.argmax(X[:, :classes].toarray() + 0.1 * rng.random((15_000, classes)), axis=1)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    clf = unfit.LogisticRegression("retrain", tol=1e-6)
    clf.fit(X[:500], y[:500])  # compiles
    tracemalloc.start()
    try:
        clf.fit(X, y).unlearn([3, 4])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= 1.5 * size  # beside the rows themselves


WIDE = """
import resource, sys
import numpy as np
from scipy import sparse
import unfit
rng = np.random.default_rng(0)
X = sparse.random_array((2000, 1 << 20), density=1e-4, rng=rng, dtype=np.float32, format="csr")
y = rng.integers(0, 3, 2000)
unfit.LogisticRegression("retrain").fit(X[:50, :100] + sparse.eye_array(50, 100), y[:50])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for method in ("fisher", "influence", "retrain"):
    clf = unfit.LogisticRegression(method, l2=1e-2).fit(X, y).unlearn([1, 2, 3])
    assert clf.coef_.shape == (3, 1 << 20)
    clf.predict(X)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_a_million_columns_need_a_few_vectors_of_memory():
    ran = subprocess.run([sys.executable, "-c", WIDE], capture_output=True, text=True, check=True)
    vector = 3 * (1 << 20) * 8 / 1024  # kilobytes, of three problems
    assert int(ran.stdout) <= 30 * vector  # one dense copy of the rows would be 333 of them


def test_a_warning_is_for_rows_scaled_by_constants_of_their_own():
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unfit.LogisticRegression().fit(sparse.csr_array(X), y).unlearn([1])
