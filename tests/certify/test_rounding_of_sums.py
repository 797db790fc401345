"""What rounding does to the sums that a certificate rests on: of long, heavy and sparse rows."""

import numpy as np
import pytest
from scipy import sparse
from test_weighted_bounds import optimum

import unfit
from unfit.certify import bounds
from unfit.certify.certifier import Certifier, Promise
from unfit.certify.known import Known
from unfit.core.objective import Rows
from unfit.core.penalty import Penalty
from unfit.core.sparse_rows import sparse_rows
from unfit.engines.sparse import SparseEngine, _Ahead
from unfit.methods.base import State

PROMISE = Promise(1.0, 1e-5, 1e-3)


def two_classes(n: int = 60, p: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, (X[:, 0] + rng.standard_normal(n) > 0).astype(np.int32)


def test_sums_without_long_rows_are_off_as_sums_with_them_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two rows a thousand times as long as the others leave, and their sums are taken away."""
    X, y = two_classes()
    far = 3000 * np.array([[0.48, 0.6, 0.64], [0.48, 0.6, 0.64]])
    X, y, leaving = np.vstack([X, far]), np.append(y, [0, 1]), np.array([60, 61])
    clf = unfit.LogisticRegression(epsilon=1.0, l2=1e-2, dtype="float64").fit(X, y)
    asked: list[tuple[bounds.Problem, Known]] = []
    bound = Known.bound

    def watched(known: Known, centre: np.ndarray, room: float) -> float:
        asked.append((known.problem, known))
        return bound(known, centre, room)

    monkeypatch.setattr(Known, "bound", watched)
    clf.unlearn(leaving)
    ((problem, known),) = asked
    W = known.statistics.weights
    computed = known.statistics.gradient_sum - known.leaving.gradient() - known._ridge * W
    wide = np.column_stack([X[:60], np.ones(60)]).astype(np.longdouble)
    exact = wide.T @ (1 / (1 + np.exp(-(wide @ W[0]))) - y[:60]) + np.longdouble(0.6) * W[0]
    assert problem.radius >= 3000
    assert problem.ridge == pytest.approx(0.6)
    off = float(np.sqrt(((computed[0] - exact) ** 2).sum()))
    assert off <= problem.rounding(float(np.linalg.norm(W)))
    assert clf._releases is not None
    assert clf._releases.certifier.radius < 10  # what is kept is of the rows that remain


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_penalty_of_what_remains_is_summed_beside_rows_however_heavy(kind: str) -> None:
    X, y = two_classes(300)
    weights = np.ones(300)
    weights[7] = 1e18  # beside which a sum of float64 does not see the others
    clf = unfit.LogisticRegression("retrain", epsilon=1.0, l2=1e-2, dtype="float64")
    clf.fit(sparse.csr_array(X) if kind == "sparse" else X, y, weights).unlearn([7])
    left = Rows(np.delete(X, 7, axis=0), np.delete(y, 7), True)
    exact = optimum(left, Penalty(1e-2), clf._state.centre)
    assert clf.certificate_ is not None
    assert np.linalg.norm(clf._state.centre - exact) <= clf.certificate_.distance


def sparse_engine(weights: np.ndarray | None = None) -> tuple[SparseEngine, Rows]:
    X, y = two_classes(400, 4)
    dense = Rows(X, y, False, sample_weight=weights)
    return SparseEngine(sparse_rows(sparse.csr_array(X), dense), 2), dense


def test_a_certificate_of_sparse_rows_rests_on_margins_that_were_measured() -> None:
    """Not on those that conjugate gradients carried along, which are wrong here."""
    data, dense = sparse_engine()
    best = optimum(dense, Penalty(1e-2), np.zeros((1, 4)))
    off = best + 0.3
    data._ahead = _Ahead(weights=off, mask=data.remaining, margins=dense.X @ best[0])
    made = Certifier(promise=PROMISE, l2=1e-2, radius=10.0)
    found = made.polish(None, State("fisher", off, 400), data, np.zeros(0, np.int64))
    assert np.linalg.norm(found.centre - best) <= found.distance


def test_a_measured_gradient_takes_no_heavy_row_away() -> None:
    weights = np.ones(400)
    weights[7] = 1e18
    data, dense = sparse_engine(weights)
    W, mask = np.full((1, 4), 0.1), np.ones(400, np.bool_)
    mask[7] = False
    data.gradient_sum(W)
    plain = dense.take(mask).value_gradient(W)[1]
    np.testing.assert_allclose(data.measured_gradient_sum(W, mask), plain, rtol=1e-12)
    np.testing.assert_allclose(data.gradient_sum(W, mask)[0], plain[0], rtol=1e-12)  # it is kept
