"""Sample weights and class weights: identities through fit and unlearn, and what is refused."""

import pickle

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import unfit

KINDS = [unfit.LogisticRegression, unfit.RidgeClassifier, unfit.LinearSVC]
EXACT = {"dtype": "float64", "tol": 1e-13, "l2": 1e-2}
METHODS = ["fisher", "influence", "retrain"]
kinds = st.sampled_from(KINDS)
penalties = st.sampled_from(
    [{}, {"C": 0.5, "l2": 1e-4}, {"penalize_intercept": False}, {"fit_intercept": False}]
)


def table(seed, n=80, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, np.where(rng.random(n) < 0.2, rng.integers(0, classes, n), np.arange(n) % classes)


def whole_weights(seed, y, most=3):
    """From 0 to most; two rows of each class count."""
    rng = np.random.default_rng(seed + 1)
    weights = rng.integers(0, most + 1, len(y))
    for c in np.unique(y):
        weights[np.flatnonzero(y == c)[:2]] = 1
    return weights


def same(one, other, atol=1e-8):
    np.testing.assert_allclose(one.coef_, np.atleast_2d(other.coef_), rtol=0, atol=atol)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=0, atol=atol)


def places_of_copies(times, rows):
    """Where the copies of some rows are, once every row is repeated."""
    return np.flatnonzero(np.isin(np.repeat(np.arange(len(times)), times), rows))


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    kind=kinds,
    method=st.sampled_from(METHODS),
    classes=st.sampled_from([2, 3]),
    more=penalties,
)
def test_a_whole_weight_is_the_row_repeated_through_fit_and_unlearn(
    seed, kind, method, classes, more
):
    X, y = table(seed, classes=classes)
    times = whole_weights(seed, y)
    parameters = {**EXACT, **more}
    weighted = kind(method, **parameters).fit(X, y, times)
    repeated = kind(method, **parameters).fit(X.repeat(times, 0), y.repeat(times))
    same(weighted, repeated)
    going = np.arange(10, 16)  # of any weight, 0 among them
    weighted.unlearn(going)
    repeated.unlearn(places_of_copies(times, going))
    same(weighted, repeated)
    weighted.prepare().unlearn([20, 21])
    repeated.prepare().unlearn(places_of_copies(times, [20, 21]))
    same(weighted, repeated)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), kind=kinds, more=penalties)
def test_a_weight_of_zero_is_no_row(seed, kind, more):
    X, y = table(seed)
    times = whole_weights(seed, y, most=1)
    parameters = {**EXACT, **more}
    weighted = kind(**parameters).fit(X, y, times)
    absent = np.flatnonzero(times == 0)
    same(weighted, kind(**parameters).fit(np.delete(X, absent, 0), np.delete(y, absent)))
    before = weighted.coef_.copy()
    weighted.unlearn(absent)
    np.testing.assert_array_equal(weighted.coef_, before)
    assert weighted.n_remaining_ == int(times.sum())


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
@pytest.mark.parametrize("more", [{}, {"sigma": 0.01}, {"method": "newton"}, {"epsilon": 1.0}])
def test_to_forget_rows_of_weight_zero_publishes_nothing_new(kind, more):
    X, y = table(0)
    X[4] *= 100  # the longest row, and of no weight
    weights = np.ones(80)
    weights[[3, 4, 5]] = 0
    clf = unfit.LogisticRegression(l2=1e-2, **more).fit(kind(X), y, weights)
    clf.unlearn([3]).unlearn([20])  # as the first request, and within a stream of them
    before, certified = clf.coef_.copy(), clf.certificate_
    clf.unlearn([4, 5])
    np.testing.assert_array_equal(clf.coef_, before)
    assert clf.n_remaining_ == 76
    assert not clf.remaining_[[3, 4, 5]].any()
    with pytest.raises(ValueError, match=r"rows \[4\] were forgotten already"):
        clf.unlearn([4])
    if certified is not None:
        now = clf.certificate_
        assert (now.rows, now.deleted) == (76, 4)
        assert (now.mu, now.releases, now.joint_mu) == (
            certified.mu, certified.releases, certified.joint_mu,
        )  # fmt: skip
        rest = np.delete(X, [3, 4, 5, 20], axis=0)
        assert clf._releases.certifier.radius <= 1.1 * np.sqrt((rest**2).sum(axis=1).max() + 1)
    clf.unlearn([30])
    assert clf.audit().outcome == "forgotten"


@pytest.mark.parametrize("method", METHODS)
def test_a_common_factor_of_weights_goes_into_a_constant_penalty_alone(method):
    """s times all weights is C times s, and nothing at all where the penalty is per row."""
    X, y = table(0)
    weights = np.random.default_rng(1).uniform(0.1, 2.0, len(y))
    one = unfit.LogisticRegression(method, **EXACT).fit(X, y, weights)
    same(
        one.unlearn([3, 4]),
        unfit.LogisticRegression(method, **EXACT).fit(X, y, 7 * weights).unlearn([3, 4]),
    )
    constant = {**EXACT, "l2": 1e-4}
    one = unfit.LogisticRegression(method, **constant, C=0.7).fit(X, y, weights)
    other = unfit.LogisticRegression(method, **constant, C=0.1).fit(X, y, 7 * weights)
    same(one.unlearn([3, 4]), other.unlearn([3, 4]))


def test_weights_of_one_cost_nothing_and_change_nothing():
    X, y = table(0)
    plain, ones = (
        unfit.LogisticRegression(random_state=0).fit(X, y, weight) for weight in (None, np.ones(80))
    )
    assert ones._data.sample_weight is None
    np.testing.assert_array_equal(plain.coef_, ones.coef_)


@pytest.mark.parametrize("noise", [0.0, 1e-3])
@pytest.mark.parametrize("method", METHODS)
def test_an_audit_retrains_the_weighted_objective(method, noise):
    X, y = table(2, n=200)
    weights = np.random.default_rng(0).uniform(0, 4, 200)
    clf = unfit.LogisticRegression(method, **EXACT, sigma=noise, random_state=0)
    clf.fit(X, y, weights).unlearn([1, 2, 3])
    made = clf.audit()
    assert made.outcome == "forgotten", made
    plain = unfit.LogisticRegression("retrain", **EXACT).fit(X, y)
    clf._state = plain._state  # weights of another objective, though of the same rows
    assert clf.audit().outcome != "forgotten"


def test_a_stream_of_requests_stays_at_the_weighted_optimum():
    X, y = table(3, n=400)
    weights = np.random.default_rng(0).uniform(0, 4, 400)
    clf = unfit.LogisticRegression(dtype="float64", l2=1e-2, C=None).fit(X, y, weights)
    for row in range(100, 130):
        clf.unlearn([row])
    left = clf.remaining_
    fresh = unfit.LogisticRegression(dtype="float64", l2=1e-2).fit(X[left], y[left], weights[left])
    same(clf, fresh, atol=1e-5)  # ten times the tolerance of training, for each row, over l2


def test_pickles_and_copies_keep_the_weights_of_what_remains():
    X, y = table(4)
    weights = np.random.default_rng(0).uniform(0.5, 4, 80)
    clf = unfit.LogisticRegression(**EXACT, class_weight="balanced").fit(X, y, weights)
    clf.unlearn([1, 2])
    back = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(back.class_weight_, clf.class_weight_)
    assert weights[1].tobytes() not in pickle.dumps(clf)
    same(back.unlearn([5]), clf.unlearn([5]))
    bare = clf.without_data()
    assert not hasattr(bare, "_data")
    np.testing.assert_array_equal(bare.class_weight_, clf.class_weight_)


@pytest.mark.parametrize("method", ["fisher", "influence", "newton", "retrain"])
@pytest.mark.parametrize("certified", [False, True])
def test_rows_that_weigh_almost_all_there_is_can_leave(method, certified):
    """What is left of the kept sums without them is rounding alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = X[:, 0] + 0.3 * rng.standard_normal(400) > 0
    weights = np.where(np.arange(400) < 4, 1.0, 1e-18)
    claim = {"epsilon": 1.0, "noise": 1e-3} if certified else {}
    clf = unfit.LogisticRegression(method, dtype="float64", l2=1e-3, **claim)
    clf.fit(X, y, weights).unlearn(range(4))
    assert clf.n_remaining_ == 396
    if certified:
        fresh = unfit.LogisticRegression(dtype="float64", l2=1e-3, tol=1e-13).fit(X[4:], y[4:])
        centre = np.append(fresh.coef_, fresh.intercept_)
        assert np.linalg.norm(clf._state.centre - centre) <= clf.certificate_.distance


# --- class weights -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_weight_is_the_same_weight_on_every_row_of_the_class(kind):
    X, y = table(5, classes=3)
    of_class = {0: 2.0, 2: 0.5}
    given = np.random.default_rng(0).uniform(0.5, 2, 80)
    weighted = kind(**EXACT, class_weight=of_class).fit(X, y, given)
    np.testing.assert_array_equal(weighted.class_weight_, [2.0, 1.0, 0.5])
    same(weighted, kind(**EXACT).fit(X, y, given * np.array([2.0, 1.0, 0.5])[y]))


def test_balanced_weights_are_frozen_at_fit():
    X, y = table(6, n=120)
    y[:40] = 1
    clf = unfit.LogisticRegression(**EXACT, class_weight="balanced", method="retrain").fit(X, y)
    counts = np.bincount(y)
    frozen = 120 / (2 * counts)
    np.testing.assert_allclose(clf.class_weight_, frozen)
    rows = np.flatnonzero(y == 1)[:30]
    clf.unlearn(rows)
    np.testing.assert_allclose(clf.class_weight_, frozen)
    left = np.delete(np.arange(120), rows)
    by_dict = {c: frozen[c] for c in (0, 1)}
    kept = unfit.LogisticRegression(**EXACT, class_weight=by_dict).fit(X[left], y[left])
    same(clf, kept)
    anew = unfit.LogisticRegression(**EXACT, class_weight="balanced").fit(X[left], y[left])
    assert np.abs(anew.coef_ - clf.coef_).max() > 1e-3
    assert clf.audit().outcome == "forgotten"
    np.testing.assert_allclose(clf.fit(X[left], y[left]).class_weight_, anew.class_weight_)


def test_balanced_weights_count_sample_weights():
    X, y = table(7)
    times = whole_weights(7, y)
    one = unfit.LogisticRegression(**EXACT, class_weight="balanced").fit(X, y, times)
    other = unfit.LogisticRegression(**EXACT, class_weight="balanced")
    other.fit(X.repeat(times, 0), y.repeat(times))
    np.testing.assert_allclose(one.class_weight_, other.class_weight_)
    same(one, other)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(79), r"one number for each of the 80 rows of X; it has the shape \(79,\)"),
        (np.ones((80, 2)), r"the shape \(80, 2\)"),
        (np.r_[np.ones(7), -1, np.ones(72)], "row 7 has -1"),
        (np.r_[np.ones(9), np.nan, np.ones(70)], "row 9 has nan"),
        (np.r_[np.inf, np.ones(79)], "row 0 has inf"),
        (["heavy"] * 80, "must hold real numbers"),
        (np.full(80, 1j), "must hold real numbers"),
        (np.full(80, 1e300), r"row 0 has 1e\+300"),
        (np.r_[0, 1e-200, np.ones(78)], "row 1 has 1e-200"),
        (np.zeros(80), "all sample weights are zero"),
        (np.full(80, 1e-170), "between 1e-30 and 1e.30; row 0 has 1e-170"),
        (np.r_[np.ones(5), 1e31, np.ones(74)], "row 5 has 1e.31"),
    ],
)
def test_bad_sample_weights_are_named(weights, message):
    X, y = table(0)
    clf = unfit.LogisticRegression()
    with pytest.raises(ValueError, match=message):
        clf.fit(X, y, weights)
    assert not hasattr(clf, "classes_")


def test_a_product_of_weights_that_is_too_small_is_refused():
    X, y = table(0)
    weights = np.ones(80)
    weights[4] = 0  # no row at all, which is fine
    weights[7] = 1e-20
    clf = unfit.LogisticRegression(class_weight={int(y[7]): 1e-20})
    with pytest.raises(ValueError, match="row 7 has 1e-40"):
        clf.fit(X, y, weights)


def test_a_class_without_weight_is_refused():
    X, y = table(0)
    with pytest.raises(ValueError, match=r"every row of class \[1\] has sample weight zero"):
        unfit.LogisticRegression().fit(X, y, (y == 0).astype(float))
    weights = np.ones(80)
    of_one = np.flatnonzero(y == 1)
    weights[of_one[3:]] = 0
    clf = unfit.LogisticRegression().fit(X, y, weights)
    with pytest.raises(ValueError, match=r"every remaining row of class \[1\]"):
        clf.unlearn(of_one[:3])
    clf.unlearn(of_one[:2])


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({5: 1.0}, r"class_weight names \[5\], which y does not hold; its classes are \[0, 1\]"),
        ({0: -1.0}, "class 0 has -1"),
        ({1: 0.0}, "class 1 has 0"),
        ({1: np.inf}, "class 1 has inf"),
        ({0: "heavy"}, "must hold numbers; class 0 has 'heavy'"),
        ({0: None}, "must hold numbers; class 0 has None"),
        ({1: 1e300}, r"class 1 has 1e\+300: multiply all weights by one number"),
        ({1: 1e-40}, "class 1 has 1e-40"),
    ],
)
def test_bad_class_weights_are_named(class_weight, message):
    X, y = table(0)
    with pytest.raises(ValueError, match=message):
        unfit.LogisticRegression(class_weight=class_weight).fit(X, y)


def test_products_of_weights_that_are_too_large_are_named():
    X, y = table(0)
    clf = unfit.LogisticRegression(class_weight={int(y[1]): 1e20})
    with pytest.raises(ValueError, match=r"times that of its class, .*; row 1 has 1e\+40"):
        clf.fit(X, y, np.where(np.arange(80) == 1, 1e20, 1))
    assert not hasattr(clf, "classes_")


@pytest.mark.parametrize("parameters", [{"method": "deltagrad"}, {"solver": "sgd"}])
def test_sgd_refuses_weights_before_any_work(parameters):
    X, y = table(0)
    for clf, weights in (
        (unfit.LogisticRegression(**parameters), np.full(80, 2.0)),
        (unfit.LogisticRegression(**parameters, class_weight={0: 2.0}), None),
    ):
        with pytest.raises(ValueError, match="counts the rows of a mini-batch and not their"):
            clf.fit(X, y, weights)
    clf = unfit.LogisticRegression(**parameters, penalize_intercept=False)
    with pytest.raises(ValueError, match="penalize_intercept=False cannot be used"):
        clf.fit(X, y)


# --- scikit-learn's ways to hand weights on -------------------------------------------------------


def test_weights_are_routed_through_pipelines_and_searches():
    X, y = table(8, n=120)
    weights = np.random.default_rng(0).uniform(0.2, 3, 120)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = unfit.LogisticRegression(**EXACT).set_fit_request(sample_weight=True)
        clf.set_score_request(sample_weight=True)
        expected = unfit.LogisticRegression(**EXACT).fit(X, y, weights)
        piped = make_pipeline(unfit.MaxNormScaler(norm=1e9), clf).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(piped[-1]._data.sample_weight, weights)
        search = GridSearchCV(clf, {"l2": [1e-2]}, cv=2).fit(X, y, sample_weight=weights)
        same(search.best_estimator_, expected)
        found = cross_validate(clf, X, y, params={"sample_weight": weights}, cv=2)
        assert len(found["test_score"]) == 2
    hits = expected.predict(X) == y
    assert expected.score(X, y, sample_weight=weights) == pytest.approx(
        weights[hits].sum() / weights.sum()
    )


@pytest.mark.parametrize("scaler", [unfit.MaxNormScaler(norm=100.0), StandardScaler()])
def test_a_pipeline_of_ours_keeps_the_weights_of_the_classifier(scaler):
    """Behind a declared constant it unlearns, behind a fitted one it is trained anew."""
    X, y = table(9, n=120)
    weights = np.random.default_rng(0).uniform(0.2, 3, 120)
    model = unfit.LogisticRegression("retrain", **EXACT, class_weight="balanced")
    pipe = unfit.Pipeline([("scale", scaler), ("model", model)])
    pipe.fit(X, y, model__sample_weight=weights)
    rows = np.arange(30, 50)
    frozen = dict(enumerate(pipe["model"].class_weight_))
    pipe.unlearn(rows)
    left = np.delete(np.arange(120), rows)
    again = clone(pipe).set_params(model__class_weight=frozen)
    again.fit(X[left], y[left], model__sample_weight=weights[left])
    same(pipe["model"], again["model"])
    assert pipe.audit().outcome == "forgotten"
    back = pickle.loads(pickle.dumps(pipe)).unlearn([60])
    same(pipe.unlearn([60])["model"], back["model"])


def test_a_pipeline_of_ours_takes_routed_weights_for_the_classifier_alone():
    X, y = table(9, n=120)
    weights = np.random.default_rng(0).uniform(0.2, 3, 120)
    pipe = unfit.Pipeline(
        [("scale", StandardScaler()), ("model", unfit.LogisticRegression(**EXACT))]
    )
    named = clone(pipe).fit(X, y, model__sample_weight=weights)
    with pytest.raises(
        ValueError, match=r"\['sample_weight'\] cannot be used.*model__sample_weight"
    ):
        pipe.fit(X, y, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe["model"].set_fit_request(sample_weight=True)
        pipe["scale"].set_fit_request(sample_weight=False)
        same(pipe.fit(X, y, sample_weight=weights)["model"], named["model"])
        pipe["scale"].set_fit_request(sample_weight=True)
        with pytest.raises(ValueError, match="the step 'scale' asks for sample_weight"):
            pipe.fit(X, y, sample_weight=weights)
