"""Shadow models refute unlearning that is wrong, and not what is right."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import unfit
from unfit.certify.attack_result import at_least
from unfit.certify.pipelines import COUNT, CertifiedPipeline, MethodPipeline, Pipeline
from unfit.certify.shadow_models import (
    Design,
    ShadowTest,
    Size,
    most_influential,
    shadow_test,
)
from unfit.core.dual import WIDE_FROM
from unfit.engines.base import Engine
from unfit.errors import BadInput
from unfit.methods import METHODS, Settings, State

L2 = 1e-3
SIZE = Size(splits=64, targets=4)


def rows(classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 5)) / 2
    scores = X[:, :classes] + 0.3 * rng.standard_normal((600, classes))
    return X, scores.argmax(axis=1)


def certified(
    classes: int = 2, dtype: str = "float64", **options: object
) -> unfit.LogisticRegression:
    X, y = rows(classes)
    return unfit.LogisticRegression(epsilon=1.0, l2=L2, dtype=dtype, **options).fit(X, y)


def pipeline_of(clf: unfit.LogisticRegression) -> CertifiedPipeline:
    return CertifiedPipeline(clf._fitted, clf._releases, clf._releases.certifier.release)


def attacked(
    clf: unfit.LogisticRegression, pipeline: Pipeline, size: Size = SIZE, seed: int = 0
) -> ShadowTest:
    return shadow_test(
        pipeline,
        clf._data,
        clf._state.centre,
        epsilon=clf.epsilon,
        delta=1e-5,
        size=size,
        rng=np.random.default_rng(seed),
    )


@dataclass(frozen=True)
class Moves(CertifiedPipeline):
    """Goes only a part of the way that unlearning goes, or beyond it, and claims what it likes."""

    share: float = 1.0

    def unlearned(
        self, state: State, data: Engine, leaving: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        after = self.method.unlearn(state, data, leaving, rng)
        return self.release(state.centre + self.share * (after.centre - state.centre), COUNT)


@dataclass(frozen=True)
class Retrains(CertifiedPipeline):
    """Does not unlearn at all, but trains anew."""

    def unlearned(
        self, state: State, data: Engine, leaving: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        exact = METHODS["retrain"](Settings(l2=L2, tol=1e-13))
        return self.release(exact.optimum(data, rng, mask=data.without(leaving)), COUNT)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_certified_pipeline_is_not_refuted(classes: int) -> None:
    clf = certified(classes)
    found = attacked(clf, pipeline_of(clf))
    assert found.outcome == "not refuted", found
    assert found.control is not None
    assert found.control.auc > 0.95
    assert (found.splits, found.targets, found.releases) == (64, 4, COUNT)


@pytest.mark.parametrize(
    ("share", "forgotten"), [(0.0, "under-forgotten"), (2.0, "over-forgotten")]
)
def test_forgetting_nothing_and_forgetting_twice_are_refuted(share: float, forgotten: str) -> None:
    clf = certified()
    p = pipeline_of(clf)
    found = attacked(clf, Moves(p.method, p.releases, p.release, share=share))
    assert found.outcome == "refuted"
    assert found.forgotten == forgotten
    assert found.found.auc > 0.95
    assert forgotten in str(found)


def test_retraining_is_never_refuted() -> None:
    clf = certified()
    p = pipeline_of(clf)
    for seed in range(5):
        found = attacked(clf, Retrains(p.method, p.releases, p.release), seed=seed)
        assert found.outcome == "not refuted"
        assert found.found.mu < 0.2


def test_a_test_that_tells_retrained_models_apart_has_no_verdict() -> None:
    """A release function that knows whether the target was there is no release function."""
    clf = certified()
    p = pipeline_of(clf)

    @dataclass(frozen=True)
    class Partial(CertifiedPipeline):
        def retrained(self, optimum, data, rng):  # type: ignore[no-untyped-def]
            return super().retrained(optimum + 1.0, data, rng)

    found = attacked(clf, Partial(p.method, p.releases, p.release))
    assert found.outcome == "cannot tell"
    assert "the test itself is wrong" in found.verdict


def test_noise_that_hides_everything_leaves_no_verdict() -> None:
    clf = certified(noise=100.0)
    found = attacked(clf, pipeline_of(clf))
    assert found.outcome == "cannot tell"
    assert "cannot be told apart either" in found.reason


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fisher", {"sigma": 0.01}),
        ("retrain", {"sigma": 0.01}),
        ("influence", {"sigma": 0.05}),
        ("deltagrad", {"sigma": 0.01, "epochs": 2}),
        ("fisher", {"solver": "sgd", "epochs": 2}),
    ],
)
def test_methods_are_attacked_with_their_own_noise(method: str, options: dict) -> None:
    X, y = rows()
    clf = unfit.LogisticRegression(method, l2=L2, random_state=0, **options).fit(X, y)
    found = attacked(clf, MethodPipeline(clf._fitted), Size(splits=32, targets=2))
    assert found.outcome in ("no claim", "cannot tell")
    assert found.knows_rows
    assert found.releases == 1
    assert found.same.epsilon < 0.5


def test_without_noise_the_attacker_does_not_know_the_other_rows() -> None:
    X, y = rows()
    clf = unfit.LogisticRegression(l2=L2).fit(X, y)
    found = attacked(clf, MethodPipeline(clf._fitted))
    assert not found.knows_rows
    assert found.found.auc < 0.7
    assert "does not know the rows beside the target" in str(found)


def test_a_method_that_forgets_nothing_shows_its_epsilon() -> None:
    class Nothing(METHODS["retrain"]):  # type: ignore[misc]
        def unlearn(self, state, data, deleted, rng):  # type: ignore[no-untyped-def]
            return self.release(state.centre, data, rng)

    X, y = rows()
    clf = unfit.LogisticRegression("retrain", l2=L2, sigma=0.002).fit(X, y)
    for made, shown in ((Nothing(clf._fitted.settings), True), (clf._fitted, False)):
        found = attacked(clf, MethodPipeline(made), Size(splits=128, targets=2))
        assert found.outcome == "no claim"
        assert (found.found.epsilon > 1) == shown, found
        least = at_least(found.found.epsilon)
        what = f"epsilon >= {least:.3g}" if least else "no epsilon above 0"
        assert found.verdict.startswith(f"shows {what}: ")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_reference_is_scikit_learns_model_of_the_half_without_the_target(dtype: str) -> None:
    X, y = rows()
    X = X.astype(dtype).astype(np.float64)
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    clf = certified(dtype=dtype)
    p = pipeline_of(clf)

    @dataclass(frozen=True)
    class Watched(CertifiedPipeline):
        def retrained(self, optimum, data, rng):  # type: ignore[no-untyped-def]
            seen.append((optimum, data.remaining.copy()))
            return super().retrained(optimum, data, rng)

    attacked(clf, Watched(p.method, p.releases, p.release), Size(splits=16, targets=2))
    assert len(seen) == 16
    ones = np.column_stack([X, np.ones(len(X))])
    for optimum, mask in seen[::5]:
        n = int(mask.sum())
        model = LogisticRegression(
            C=1 / (L2 * n), fit_intercept=False, tol=1e-12, solver="newton-cholesky", max_iter=500
        )
        theirs = model.fit(ones[mask], y[mask]).coef_
        assert np.linalg.norm(optimum - theirs) < 1e-8
        assert 200 < n < 400


def test_targets_are_the_rows_that_move_the_optimum_most() -> None:
    X, y = rows()
    clf = unfit.LogisticRegression(l2=L2, dtype="float64", tol=1e-12).fit(X, y)
    clf.unlearn(np.arange(50))
    data, w = clf._data, clf._state.weights
    found = most_influential(data, w, L2 * data.n_remaining, 5)
    ones = np.column_stack([X, np.ones(len(X))])
    p = 1 / (1 + np.exp(-ones @ w[0]))
    left = data.remaining
    H = (ones[left].T * (p * (1 - p))[left]) @ ones[left] + L2 * left.sum() * np.eye(6)
    moved = np.abs(p - y) * np.linalg.norm(np.linalg.solve(H, ones.T), axis=0)
    moved[~left] = 0
    assert set(found) == set(np.argsort(moved)[-5:])


def test_targets_of_rows_too_wide_for_a_hessian_are_the_same() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, WIDE_FROM + 10)) / 20
    y = X[:, 0] > 0
    clf = unfit.LogisticRegression(l2=1e-2, dtype="float64", fit_intercept=False).fit(X, y)
    data, w = clf._data, clf._state.weights
    assert data.wide()
    p = 1 / (1 + np.exp(-X @ w[0]))
    H = (X.T * (p * (1 - p))) @ X + 1e-2 * 60 * np.eye(X.shape[1])
    moved = np.abs(p - y) * np.linalg.norm(np.linalg.solve(H, X.T), axis=0)
    assert set(most_influential(data, w, 1e-2 * 60, 5)) == set(np.argsort(moved)[-5:])


def test_every_target_is_in_half_of_the_odd_and_half_of_the_even_splits() -> None:
    rng = np.random.default_rng(0)
    clf = unfit.LogisticRegression().fit(*rows())
    clf.unlearn(np.arange(100))
    design = Design.draw(np.array([200, 300]), 16, rng)
    assert (design.members[::2].sum(axis=0) == 4).all()
    assert (design.members[1::2].sum(axis=0) == 4).all()
    half = design.half(clf._data, 3, rng)
    assert not half.remaining[:100].any()
    assert half.remaining[[200, 300]].tolist() == design.members[3].tolist()
    assert half.n_remaining == half.remaining.sum()
    assert clf._data.n_remaining == 500


def test_progress_goes_from_none_to_all() -> None:
    clf = certified()
    told: list[tuple[str, int, int]] = []
    shadow_test(
        pipeline_of(clf),
        clf._data,
        clf._state.centre,
        epsilon=1.0,
        delta=1e-5,
        size=Size(16, 1),
        rng=np.random.default_rng(0),
        progress=lambda *now: told.append(now),
    )
    assert told == [("shadow models", i, 16) for i in range(17)]


def test_what_cannot_be_tried_is_refused_in_a_sentence() -> None:
    for splits in (8, 30, 17):
        with pytest.raises(BadInput, match=f"multiple of 4 and at least 16, got {splits}"):
            Size(splits=splits)
    with pytest.raises(BadInput, match="targets must be at least 1"):
        Size(targets=0)
    X, y = rows()
    clf = unfit.LogisticRegression().fit(X[:30], y[:30])
    with pytest.raises(BadInput, match="10 targets need at least 40 rows, and 30 remain"):
        most_influential(clf._data, clf._state.centre, 1e-4, 10)


def test_fewer_splits_find_less_and_say_so() -> None:
    clf = certified()
    few = attacked(clf, pipeline_of(clf), Size(splits=16, targets=1))
    more = attacked(clf, pipeline_of(clf), Size(splits=64, targets=1))
    assert few.most < more.most
    assert f"epsilon {few.most:.3g} at most" in str(few)


def test_what_is_kept_is_rounded_and_says_the_same() -> None:
    clf = certified()
    p = pipeline_of(clf)
    for pipeline in (p, Moves(p.method, p.releases, p.release, share=0.0)):
        found = attacked(clf, pipeline)
        kept = found.rounded(2)
        assert kept.outcome == found.outcome
        assert kept.forgotten == found.forgotten
        assert kept.found.mu <= found.found.mu
        assert len(f"{kept.found.auc:.10g}") <= 4
        assert ShadowTest.of(kept.to_dict()) == kept
    at_the_edge = replace(found, found=replace(found.found, mu=0.2682, epsilon=0.5))
    assert at_the_edge.outcome == at_the_edge.rounded(2).outcome == "refuted"
