"""`LogisticRegression(epsilon=...)`: the claim holds after every deletion, for every method."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from problems import Small, distance, optimum

import unfit
from unfit.certify import Promise
from unfit.certify.accountant import delta_of, epsilon_of, mu_of
from unfit.errors import Unavailable
from unfit.methods import METHODS as REGISTERED
from unfit.methods import Settings

FAST = {"epochs": 20, "batch_size": 64, "burn_in": 5, "period": 5}
METHODS = ("fisher", "influence", "deltagrad", "newton", "retrain")


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 6)) / 2
    return X, (X[:, 0] + 0.4 * rng.standard_normal(600) > 0).astype(int)


def certified(method: str = "fisher", **options: object) -> unfit.LogisticRegression:
    settings = {"epsilon": 1.0, "delta": 1e-5, "noise": 1e-3, "l2": 1e-3} | FAST | options
    return unfit.LogisticRegression(method, **settings)  # type: ignore[arg-type]


def as_small(clf: unfit.LogisticRegression, X: np.ndarray, y: np.ndarray) -> Small:
    X = X.astype(clf.dtype)
    gone = np.flatnonzero(~clf.remaining_)
    return Small(X, y.astype(np.int32), len(clf.classes_), clf.l2, gone)


def true_distance(clf: unfit.LogisticRegression, X: np.ndarray, y: np.ndarray) -> float:
    """Of the private centre from the optimum of what remains, in extended precision."""
    small = as_small(clf, X, y)
    return distance(clf._state.centre, optimum(small, small.mask))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_the_centre_is_as_near_as_is_claimed(method, dtype, rows):
    X, y = rows
    clf = certified(method, dtype=dtype).fit(X, y)
    room = mu_of(1.0, 1e-5) * 1e-3
    for leaving in ([3], np.arange(10, 40), np.arange(100, 300)):
        clf.unlearn(leaving).prepare()
        found = clf.certificate_
        assert true_distance(clf, X, y) <= found.distance <= room
        assert found.mu == pytest.approx((found.distance + found.tol / clf.l2) / 1e-3)
        assert delta_of(found.epsilon, found.mu) <= found.delta
        assert found.rows == clf.n_remaining_
    assert found.deleted == 231
    assert found.releases == 3
    assert found.joint_mu >= found.mu
    assert found.joint_epsilon == epsilon_of(found.joint_mu, 1e-5)


def test_several_classes_are_one_release(rows):
    X, _ = rows
    y = np.argmax(X[:, :4] + 0.3 * np.random.default_rng(1).standard_normal((600, 4)), axis=1)
    clf = certified().fit(X, y).unlearn(np.arange(50))
    assert clf.certificate_.problems == 4
    assert true_distance(clf, X, y) <= clf.certificate_.distance


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_the_claim_holds_over_long_sequences(block):
    """200 sequences of 50 deletions: the bound is never below the truth, in extended precision."""
    for seed in range(50 * block, 50 * (block + 1)):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(160, 300))
        X = rng.standard_normal((n, 3)) * rng.choice([0.3, 1.0]) + rng.choice([0.0, 1.0])
        y = (X[:, 0] - X[:, 0].mean() + rng.standard_normal(n) > 0).astype(int)
        clf = certified(METHODS[seed % 2], dtype="float64", l2=float(10 ** rng.uniform(-4, -2)))
        clf.fit(X, y)
        for _ in range(50):
            left = np.flatnonzero(clf.remaining_)
            clf.unlearn(rng.choice(left, int(rng.integers(1, 3)), replace=False))
            if rng.random() < 0.5:
                clf.prepare()
            assert true_distance(clf, X, y) <= clf.certificate_.distance


def test_small_deletions_from_kept_sums_need_no_pass(rows):
    X, y = rows
    clf = certified(dtype="float64").fit(X, y).unlearn([7])
    assert clf.certificate_.bound == "step"
    assert clf.certificate_.steps == 0
    assert clf.certificate_.rows_read == 0


def test_noise_is_fresh_of_the_promised_size_and_on_a_grid(rows):
    X, y = rows
    noise = []
    for _ in range(40):
        clf = certified().fit(X, y).unlearn([1])
        noise.append(clf._state.weights - clf._state.centre)
        steps = np.concatenate([clf.coef_[0], clf.intercept_]) / (1e-3 / 1024)
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)
    drawn = np.array(noise).ravel()
    assert np.std(drawn) == pytest.approx(1e-3, rel=0.25)
    assert len(np.unique(drawn)) > 200
    first = certified().fit(X, y)
    before = first.coef_.copy()
    assert not np.array_equal(first.unlearn([5]).coef_, before)


def test_what_is_predicted_comes_from_the_release(rows):
    X, y = rows
    clf = certified(noise=0.5).fit(X, y).unlearn([1])
    scores = X.astype(np.float32) @ clf.coef_[0].astype(np.float32) + clf.intercept_[0]
    np.testing.assert_allclose(clf.decision_function(X), scores, rtol=1e-4, atol=1e-4)


def test_a_seed_is_refused(rows):
    with pytest.raises(ValueError, match="random_state makes the noise known"):
        certified(random_state=0).fit(*rows)


def test_the_papers_noise_is_refused_beside_it(rows):
    with pytest.raises(ValueError, match="leave sigma at 0"):
        certified(sigma=1.0).fit(*rows)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"noise": 0.0}, "noise"),
        ({"noise": 1e-12}, "leaves no room"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_any_work(options, said, rows):
    clf = certified(**options)
    with pytest.raises(ValueError, match=said):
        clf.fit(*rows)
    assert not hasattr(clf, "coef_")


def test_noise_below_the_rounding_of_sums_is_refused_in_a_sentence(rows):
    X, y = rows
    with pytest.raises(Unavailable, match="rounding of sums over 600 rows is in the way"):
        certified(noise=1e-7).fit(1e6 * X, y)


def test_without_epsilon_nothing_changes(rows):
    clf = unfit.LogisticRegression().fit(*rows)
    assert clf.certificate_ is None
    assert clf._state.kept_centre is None


def test_copies_go_on_and_hand_outs_hold_no_centre(rows):
    X, y = rows
    clf = certified().fit(X, y).unlearn([1])
    again = pickle.loads(pickle.dumps(clf))
    again.unlearn([2])
    assert again.certificate_.releases == 2
    assert true_distance(again, X, y) <= again.certificate_.distance
    assert copy.copy(clf).certificate_ == clf.certificate_
    bare = clf.without_data()
    np.testing.assert_array_equal(bare.coef_, clf.coef_)
    assert clf._state.centre.tobytes() not in pickle.dumps(bare)


def test_an_audit_finds_it_forgotten(rows):
    X, y = rows
    clf = certified().fit(X, y).unlearn(np.arange(30))
    assert clf.audit().outcome == "forgotten"
    remembered = certified().fit(X, y)
    remembered._data.forget(np.arange(30))  # and nothing is unlearned
    assert remembered.audit().outcome == "not forgotten"


def test_an_attack_refutes_a_model_that_never_unlearned_and_not_ours(rows):
    X, y = rows
    clf = certified().fit(X, y).unlearn(np.arange(30))
    assert clf.attack(draws=4000).outcome == "not refuted"
    remembered = certified().fit(X, y)
    remembered._data.forget(np.arange(30))  # and nothing is unlearned
    found = remembered.attack(draws=4000)
    assert found.outcome == "refuted"
    assert found.found.mu > 1
    with pytest.raises(ValueError, match="no claim to refute"):
        unfit.LogisticRegression().fit(X, y).attack()
    with pytest.raises(ValueError, match="draws must be >= 100"):
        clf.attack(draws=5)


@pytest.mark.slow
def test_certified_models_are_refuted_as_seldom_as_chance_allows(rows):
    """Of a hundred at most ten; all of them with half the noise and the claim at its limit."""
    X, y = rows
    refuted = missed = 0
    clf = certified(dtype="float64", l2=1e-2).fit(X, y)
    exact = REGISTERED["retrain"](Settings(l2=1e-2, tol=1e-13))
    for i in range(100):
        clf.unlearn([i])
        refuted += clf.attack(draws=4000).outcome == "refuted"
        state = clf._state
        room = clf._releases.certifier.room
        best = exact.optimum(clf._data, np.random.default_rng())
        at_limit = best + room / np.sqrt(best.size)
        half = replace(clf._releases.certifier, promise=Promise(1.0, 1e-5, 5e-4))
        broken = replace(clf._releases, certifier=half)
        moved = replace(state, weights=at_limit, kept_centre=None)
        missed += broken.attack(moved, clf._data, 10_000).outcome != "refuted"
    assert refuted <= 10
    assert missed == 0


def test_it_prints_as_a_table(rows):
    said = str(certified().fit(*rows).unlearn([4]).certificate_)
    assert "(1, 1e-05)-indistinguishable from a retraining" in said
    assert "599 remain, 1 were deleted" in said or "599 remain, 1 was deleted" in said
    assert "not claimed" in said


def test_ridge_and_svm_are_certified_too(rows):
    X, y = rows
    for kind in (unfit.RidgeClassifier, unfit.LinearSVC):
        clf = kind(epsilon=1.0, l2=1e-2, dtype="float64").fit(X, y).unlearn(np.arange(20))
        kept = clf.remaining_
        again = kind(l2=1e-2, dtype="float64", tol=1e-12).fit(X[kept], y[kept])
        apart = np.linalg.norm(clf._state.centre - again._state.weights)
        assert apart <= clf.certificate_.distance + 1e-9
