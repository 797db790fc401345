"""An audit that attacks: both attacks, with a claim and without, and what they say together."""

import json
from dataclasses import replace

import numpy as np
import pytest

import unfit
from unfit.audit import Attack, Claim, Effort, Question, attack
from unfit.audit.attack import own_release
from unfit.audit.attack_report import NO_NOISE
from unfit.certify import Promise
from unfit.certify.shadow_models import Size
from unfit.errors import BadInput
from unfit.methods import METHODS, Settings

L2 = 1e-3
SMALL = {"splits": 32, "targets": 2}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 5)) / 2
    return X, X[:, 0] + X[:, 1] + 0.3 * rng.standard_normal(600) > 0


def certified(rows: tuple[np.ndarray, np.ndarray], **options: object) -> unfit.LogisticRegression:
    return unfit.LogisticRegression(epsilon=1.0, l2=L2, dtype="float64", **options).fit(*rows)


def test_a_certified_model_is_not_refuted_and_one_that_never_unlearned_is(rows) -> None:
    made = certified(rows).unlearn(np.arange(20)).audit(attack=True, **SMALL)
    assert made.outcome == "forgotten"
    found = made.attack
    assert found is not None
    assert found.release is not None
    assert [test.outcome for _, test in found.tests] == ["not refuted"] * 2
    assert found.verdict.startswith("not refuted: mu is at least ")
    remembered = certified(rows)
    remembered._data.forget(np.arange(20))  # and nothing is unlearned
    judged = remembered.audit(attack=True, **SMALL)
    broken = judged.attack
    assert broken is not None
    assert (judged.outcome, judged.passed) == ("not forgotten", False)
    assert judged.reason == broken.verdict
    assert broken.outcome == "refuted"
    assert broken.release is not None
    assert broken.release.forgotten == "under-forgotten"
    assert "refuted: the claim of epsilon 1 at delta 1e-05 allows a mu of 0.268" in str(broken)
    assert "(release test); shadow models: not refuted" in broken.verdict  # which unlearn rightly


def test_a_model_that_went_too_far_is_over_forgotten(rows) -> None:
    clf = certified(rows)
    before = clf._state.centre
    clf.unlearn(np.arange(20))
    beyond = before + 2 * (clf._state.centre - before)
    clf._state = replace(clf._state, kept_centre=beyond)
    found = clf.audit(attack=True, **SMALL).attack
    assert found is not None
    assert found.release is not None
    assert found.outcome == "refuted"
    assert found.release.forgotten == "over-forgotten"


def test_noise_that_is_less_than_was_claimed_is_refuted(rows) -> None:
    """The centre at the limit of the claim, and half the noise; and all of it, half as far."""
    clf = certified(rows).unlearn(np.arange(20))
    data, certifier = clf._data, clf._releases.certifier
    exact = METHODS["retrain"](Settings(l2=L2, tol=1e-13))
    best = exact.optimum(data, np.random.default_rng(0))
    half = replace(certifier, promise=Promise(1.0, 1e-5, 5e-4))
    gone = data.take(np.arange(20))
    effort = Effort(size=Size(16, 1))
    cases = (1.0, half.release, "refuted"), (0.5, certifier.release, "not refuted")
    for share, release, outcome in cases:
        centre = best + share * certifier.room / np.sqrt(best.size)
        state = replace(clf._state, kept_centre=centre)
        asked = Question(clf._fitted, state, data, gone, gone, 20)
        claim = Claim(certifier.promise, release)
        found = attack(asked, claim, effort=effort, rng=np.random.default_rng(0))
        assert found.release is not None
        assert found.release.outcome == outcome


def test_without_noise_there_is_no_finite_epsilon(rows) -> None:
    clf = unfit.LogisticRegression(l2=L2).fit(*rows).unlearn([3])
    found = clf.audit(attack=True, **SMALL).attack
    assert found is not None
    assert found.release is None
    assert found.note == NO_NOISE
    assert found.verdict.startswith("no noise: no finite epsilon; whoever knows the remaining rows")
    assert "no release test   no noise: no finite epsilon" in str(found)


def test_without_a_claim_it_says_what_epsilon_it_could_show(rows) -> None:
    clf = unfit.LogisticRegression("retrain", l2=L2, sigma=0.01).fit(*rows)
    clf.unlearn(np.arange(20))
    good = clf.audit(attack=True, **SMALL).attack
    assert good is not None
    assert good.release is not None
    assert good.outcome == "no claim"
    assert good.release.found.epsilon < 0.3
    remembered = unfit.LogisticRegression("retrain", l2=L2, sigma=0.01).fit(*rows)
    remembered._data.forget(np.arange(20))
    bad = remembered.audit(attack=True, **SMALL).attack
    assert bad is not None
    assert bad.release is not None
    assert bad.release.found.epsilon > 1
    assert bad.verdict.startswith("shows epsilon >= ")
    assert "refuted" not in str(bad)


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("influence", {"sigma": 0.05}, "the noise is part of the objective"),
        ("deltagrad", {"epochs": 2}, "chance in training is part of every release"),
        ("fisher", {"solver": "sgd", "epochs": 2, "sigma": 0.1}, "chance in training"),
    ],
)
def test_where_a_release_is_a_training_the_shadow_models_are_alone(
    rows, method: str, options: dict, said: str
) -> None:
    clf = unfit.LogisticRegression(method, l2=L2, random_state=0, **options).fit(*rows)
    found = clf.unlearn([3]).audit(attack=True, splits=16, targets=1).attack
    assert found is not None
    assert found.release is None
    assert said in found.note
    assert said in str(found)


def test_deltagrad_is_compared_with_its_own_run(rows) -> None:
    clf = unfit.LogisticRegression("deltagrad", l2=L2, sigma=0.1, epochs=2, random_state=0)
    found = clf.fit(*rows).unlearn([3]).audit(attack=True, splits=16, targets=1).attack
    assert found is not None
    assert found.release is not None
    assert found.release.found.mu < 0.2  # far from the optimum, but not from its own repetition


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", ["fisher", "retrain", "deltagrad"])
def test_releases_are_drawn_as_the_method_draws_them(rows, method: str, classes: int) -> None:
    X, y = rows
    labels = y if classes == 2 else np.where(X[:, 2] > 0.4, 2, y.astype(int))
    clf = unfit.LogisticRegression(method, l2=L2, sigma=0.3, epochs=2, dtype="float64")
    clf.fit(X, labels)
    own, data, centre = clf._fitted, clf._data, clf._state.centre
    drawn = own_release(own, data, centre, np.random.default_rng(5))(centre, 1)[0]
    assert drawn == pytest.approx(own.released(centre, data, np.random.default_rng(5)), abs=1e-9)


def test_it_is_kept_as_json_and_read_back(rows) -> None:
    made = certified(rows).unlearn(np.arange(20)).audit(attack=True, **SMALL)
    found = made.attack
    assert found is not None
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert Attack.of(content) == found
    assert content["outcome"] == found.outcome
    assert made.to_dict()["attack"]["verdict"] == found.verdict
    assert str(found) in str(made)
    names = [line.split("  ")[0] for line in str(found).splitlines()]
    for name in ("claim", "told apart", "never unlearned", "could have found", "TPR at 1 % FPR"):
        assert name in names
    text = json.dumps(found.rounded().to_dict())
    assert "coef" not in text
    assert "centre" not in text


def test_nothing_is_attacked_unless_it_is_asked_for(rows) -> None:
    clf = certified(rows).unlearn([3])
    assert clf.audit().attack is None
    with pytest.raises(BadInput, match="splits must be a multiple of 4"):
        clf.audit(attack=True, splits=10)
    with pytest.raises(BadInput, match="draws must be >= 100"):
        Effort(draws=5)


def test_the_model_does_not_change(rows) -> None:
    clf = certified(rows).unlearn([3])
    before = clf.coef_.copy(), clf._state.centre.copy(), clf.certificate_, clf.remaining_.copy()
    clf.audit(attack=True, **SMALL)
    assert np.array_equal(clf.coef_, before[0])
    assert np.array_equal(clf._state.centre, before[1])
    assert clf.certificate_ == before[2]
    assert np.array_equal(clf.remaining_, before[3])
    clf.unlearn([4])
    assert clf.certificate_.deleted == 2


def test_one_refutation_is_enough_and_one_that_could_have_is_needed(rows) -> None:
    found = certified(rows).unlearn(np.arange(20)).audit(attack=True, **SMALL).attack
    assert found is not None
    assert found.release is not None
    assert found.release.control is not None
    far = replace(found.release.found, mu=3.0)
    refuted = replace(found, release=replace(found.release, found=far))
    assert refuted.outcome == "refuted"
    hidden = replace(found.release.control, mu=0.0, epsilon=0.0)
    blind = replace(found.release, control=hidden)
    assert replace(found, release=blind).outcome == "not refuted"
    both = replace(found, release=blind, shadow=replace(found.shadow, control=hidden))
    assert both.outcome == "cannot tell"
    assert both.verdict.startswith("cannot tell: a model that never unlearned cannot be told apart")


def test_a_pipeline_passes_the_attack_on(rows) -> None:
    X, y = rows
    steps = [("scale", unfit.MaxNormScaler()), ("model", unfit.LogisticRegression(epsilon=1.0))]
    pipeline = unfit.Pipeline(steps).fit(X, y)
    pipeline.unlearn(np.arange(20))
    made = pipeline.audit(attack=True, splits=16, targets=1)
    assert made.attack is not None
    assert made.attack.outcome == "not refuted"
