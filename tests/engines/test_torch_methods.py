"""Every method on the engine "torch": the contract, and the engine "cpu" to 1e-8."""

from dataclasses import replace

import numpy as np
import pytest

import unfit
from tiers import mostly_slow
from unfit.certify.accountant import mu_of
from unfit.engines.base import ENVIRONMENT, make_engine
from unfit.methods import METHODS, Settings
from unfit.testing import CASES, Case, method_checks

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # its threads would fight with those of other tests

METHODS_OF_UNFIT = METHODS.built_in()
QUICK = [check for check in method_checks() if "noise" not in check.__module__]  # few models each


@pytest.mark.parametrize(
    "case", mostly_slow(CASES[:1] + CASES[3:], CASES[:1]), ids=lambda c: f"{c.dtype}-{c.n_classes}"
)
@pytest.mark.parametrize("check", mostly_slow(method_checks(), QUICK), ids=lambda c: c.__name__)
@pytest.mark.parametrize("method", METHODS_OF_UNFIT)
def test_contract(method, check, case, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "torch")
    check(METHODS[method], case)


def unlearned(name, engine, case, settings):
    rng = np.random.default_rng(0)
    data = make_engine(case.rows(), case.n_classes, name=engine)
    method = METHODS[name](settings, refine=True)
    state = method.prepare(method.train(data, rng), data)
    return state.weights, method.unlearn(state, data, case.deleted, rng).weights


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.dtype}-{c.n_classes}")
@pytest.mark.parametrize("name", METHODS_OF_UNFIT)
def test_weights_are_those_of_the_cpu(name, case):
    settings = Settings(l2=1e-3, tol=1e-12, epochs=20, batch_size=64, burn_in=5, period=5)
    ours, theirs = (unlearned(name, engine, case, settings) for engine in ("torch", "cpu"))
    # SGD on float32 rows sums in float32 on the CPU, and in float64 here.
    tolerance = 1e-8 if name != "deltagrad" or case.dtype == "float64" else 1e-5
    for a, b in zip(ours, theirs, strict=True):
        assert np.linalg.norm(a - b) <= tolerance * np.linalg.norm(b)


def wide_rows(classes):
    rng = np.random.default_rng(1)
    X = (rng.standard_normal((3000, 300)) / np.sqrt(300)).astype(np.float32)
    codes = (X @ rng.standard_normal((300, classes)) * 3).argmax(axis=1).astype(np.int32)
    return replace(Case("float32", classes).rows(), X=X, codes=codes)


@pytest.mark.parametrize("classes", [2, 3])
def test_steps_by_products_and_a_guide_from_the_device_lead_to_the_same_optimum(classes):
    found, rng = {}, np.random.default_rng(0)
    method = METHODS["newton"](Settings(l2=1e-6, tol=1e-10))
    deleted = np.arange(0, 3000, 10)
    for name in ("torch", "cpu"):
        data = make_engine(wide_rows(classes), classes, name=name)
        assert method.objective(data).by_products
        state = method.prepare(method.train(data, rng), data)
        found[name] = state.weights, method.unlearn(state, data, deleted, rng).weights
    for a, b in zip(found["torch"], found["cpu"], strict=True):
        assert np.linalg.norm(a - b) <= 1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("method", mostly_slow(METHODS_OF_UNFIT, ["newton"]))
@pytest.mark.parametrize("dtype", mostly_slow(["float32", "float64"], ["float32"]))
def test_certificates_claim_the_same(method, dtype):
    """The noise is fresh, so weights differ; the claim and what it rests on do not. DELTAGRAD
    trains by SGD in a random order, so that its mu differs from run to run, within the promise."""
    case, stated = Case(dtype, 2), {}
    rows = case.rows()
    for engine in ("torch", "cpu"):
        clf = unfit.LogisticRegression(method=method, epsilon=1.0, l2=1e-2, engine=engine)
        clf.fit(rows.X, rows.codes).unlearn(case.deleted)
        found = clf.certificate_
        assert 0 < found.mu <= mu_of(found.epsilon, found.delta)
        mu = () if method == "deltagrad" else (found.mu, found.joint_mu)
        claim = found.epsilon, found.delta, found.noise, *mu
        stated[engine] = *claim, found.bound, found.rows, found.deleted
    assert stated["torch"] == stated["cpu"]
