"""The package in tests/plugin adds a method, an engine and a loss by its entry points alone."""

import numpy as np
import pytest

import unfit
from unfit.core.losses import LOSSES
from unfit.engines.base import ENGINES, ENVIRONMENT
from unfit.errors import Unavailable
from unfit.methods import METHODS, explain


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)) / 2
    return X, (X[:, 0] + 0.3 * rng.standard_normal(300) > 0).astype(int)


def test_the_package_is_installed():
    assert "rounds" in METHODS
    assert "dense" in ENGINES
    assert "pseudo-huber" in LOSSES


def test_a_method_from_outside_has_options_of_its_own(rows):
    one, many = (
        unfit.LogisticRegression("rounds", dtype="float64", options={"rounds": n}).fit(*rows)
        for n in (1, 6)
    )
    best = unfit.LogisticRegression("retrain", dtype="float64", tol=1e-12).fit(*rows)
    gone = np.arange(60)
    for clf in (one, many, best):
        clf.unlearn(gone)
    apart = [np.linalg.norm(clf.coef_ - best.coef_) for clf in (one, many)]
    assert apart[1] < 1e-8 < apart[0]
    assert many.audit().outcome == "forgotten"
    assert explain()["rounds"] == "rounds: Newton steps per erasure"


@pytest.mark.parametrize(
    ("options", "wrong"),
    [({"round": 2}, "no option 'round'; it has rounds"), ({"rounds": 0}, "'rounds'.*greater than")],
)
def test_wrong_options_are_refused(rows, options, wrong):
    with pytest.raises(ValueError, match=wrong):
        unfit.LogisticRegression("rounds", options=options).fit(*rows)


def test_an_engine_from_outside_gives_the_same_model(rows, monkeypatch):
    gone = [3, 14, 159]
    ours = unfit.LogisticRegression(dtype="float64").fit(*rows).unlearn(gone)
    named = unfit.LogisticRegression(dtype="float64", engine="dense").fit(*rows).unlearn(gone)
    monkeypatch.setenv(ENVIRONMENT, "dense")
    by_machine = unfit.LogisticRegression(dtype="float64").fit(*rows).unlearn(gone)
    assert type(by_machine._data) is type(named._data) is ENGINES["dense"]
    np.testing.assert_allclose(named.coef_, ours.coef_, rtol=1e-9)
    np.testing.assert_array_equal(named.coef_, by_machine.coef_)
    assert named.audit().outcome == "forgotten"


def test_a_method_that_the_engine_cannot_serve_is_refused_in_a_sentence(rows):
    clf = unfit.LogisticRegression("deltagrad", engine="dense")
    with pytest.raises(Unavailable, match="'deltagrad' .* engine 'dense' cannot; use"):
        clf.fit(*rows)


def test_a_loss_from_outside_makes_a_classifier(rows):
    class Robust(unfit.LinearClassifier):
        loss = LOSSES["pseudo-huber"]()

    X, y = rows
    clf = Robust("retrain", dtype="float64", tol=1e-10).fit(X, y)
    assert clf.score(X, y) > 0.8
    clf.unlearn([1, 2, 3])
    again = Robust(dtype="float64", tol=1e-10).fit(X[4:], y[4:]).coef_
    assert np.linalg.norm(clf.coef_ - again) < 0.1
    assert clf.audit().outcome == "forgotten"
