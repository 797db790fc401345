"""An independent retraining, and what a distance to it is measured by.

Distances are taken in the norm of the Hessian at the retrained weights,

    |w - w*|^2 = (w - w*)^T H (w - w*),

which is twice what the objective is above its minimum: it does not depend on the units of a
column. In this norm one more row moves the optimum by about |slope| sqrt(x^T H^-1 x), its
influence. The control is the model that never unlearned: the optimum of the remaining and the
deleted rows together. May know methods and engines.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.linalg

from unfit.core import inexact_newton, newton, objective
from unfit.core.conjugate_gradients import Products
from unfit.core.dual import Gram
from unfit.core.factors import Cholesky, Factor
from unfit.core.objective import Rows
from unfit.core.penalty import penalty_value, with_ridge
from unfit.core.predictions import margins
from unfit.core.replay import GONE, PRESENT, Cadence
from unfit.core.trajectory import TrajectoryFile
from unfit.engines.base import Engine
from unfit.engines.sgd import sgd_engine
from unfit.methods.base import Method, Settings, State
from unfit.methods.retrain import Retrain

TOLERANCE = 1e-13  # of the gradient, per row: five digits below what training asks for
WIDEST = 4096  # columns up to which a Hessian is made for the norm alone
SAMPLE = 4000  # remaining rows that show what one row's influence is
_BLOCK = 1024


@dataclass(frozen=True)
class Retraining:
    """The optimum of the remaining rows, found from nothing, and the curvature there.

    floor: its own distance to the exact optimum. factors: of the Hessians; None for rows too wide
    to have them, and then lengths are Euclidean unless the engine knows products with them.
    """

    weights: np.ndarray
    factors: Sequence[Cholesky] | None
    floor: float
    linear_term: np.ndarray | None
    settings: Settings
    products: Products | None = None

    def length(self, vector: np.ndarray) -> float:
        """|v| in the norm of the Hessian, over all problems."""
        if self.products is not None:
            image = self.products(np.arange(len(vector)), vector)
            return float(np.sqrt(np.sum(vector * image)))
        if self.factors is None:
            return float(np.linalg.norm(vector))
        pairs = zip(self.factors, vector, strict=True)
        return float(np.sqrt(sum(np.sum((f.lower.T @ v) ** 2) for f, v in pairs)))

    def distance(self, weights: np.ndarray) -> float:
        return self.length(weights - self.weights)

    def influences(self, rows: Rows) -> np.ndarray | None:
        """How far each row, one more in the data, would move these weights; (n,)."""
        if self.factors is None:
            return None
        p = rows.X.shape[1]
        total = np.zeros(len(rows))
        margin = margins(rows.X, self.weights).astype(np.float64)
        slopes = rows.weighted(rows.loss.slope(margin, rows.targets(len(self.weights))))
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            X = np.ones((len(rows.X[part]), rows.d))
            X[:, :p] = rows.X[part]
            for c, factor in enumerate(self.factors):
                whitened = scipy.linalg.solve_triangular(factor.lower, X.T, lower=True)
                total[part] += slopes[part, c] ** 2 * np.sum(whitened**2, axis=0)
        return np.asarray(np.sqrt(total))

    def control(self, data: Engine, deleted: Rows) -> np.ndarray:
        """The optimum of the remaining rows and the deleted ones: what not to unlearn leaves."""
        if not data.forms_hessian:
            return self._control_by_products(data, deleted)
        n = data.n_remaining + len(deleted)
        total = data.total_weight() + deleted.total_weight
        ridge = Retrain(self.settings).penalty(data).on(total, data.d)
        linear_term = 0.0 if self.linear_term is None else self.linear_term

        def value_gradient(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            value, gradient = data.value_gradient_sum(W)
            more, of_deleted = objective.value_gradient_sum(deleted, W)
            value = value + more + penalty_value(W, ridge)
            linear = np.einsum("kd,kd->k", np.broadcast_to(linear_term, W.shape), W)
            return value + linear, gradient + of_deleted + ridge * W + linear_term

        def hessian(W: np.ndarray) -> Iterable[np.ndarray | Factor]:
            if n < data.d and data.wide():
                return all_rows().factors(W, np.ones(n, np.bool_), ridge)
            both = data.hessian_sum(W) + objective.hessian_sum(deleted, W)
            return with_ridge(both, ridge)

        @cache
        def all_rows() -> Gram:
            left = data.take(np.flatnonzero(data.remaining))
            return Gram.of(left.joined(deleted), np.ones(n, np.bool_))

        found = newton.minimize(value_gradient, hessian, self.weights, TOLERANCE * total, 1)
        return found.weights

    def _control_by_products(self, data: Engine, deleted: Rows) -> np.ndarray:
        """The same where no Hessian is made: sums over both, each by an engine of its own."""
        total = data.total_weight() + deleted.total_weight
        ridge = Retrain(self.settings).penalty(data).on(total, data.d)
        more = data.beside(deleted)
        linear_term = 0.0 if self.linear_term is None else self.linear_term

        def both(W: np.ndarray) -> tuple[np.ndarray, np.ndarray, Products]:
            value, gradient, product = data.value_gradient_products(W)
            value_more, gradient_more, product_more = more.value_gradient_products(W)

            def products(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
                return np.asarray(product(problems, V) + product_more(problems, V) + ridge * V)

            value = value + value_more + penalty_value(W, ridge)
            value = value + np.einsum("kd,kd->k", np.broadcast_to(linear_term, W.shape), W)
            return value, gradient + gradient_more + ridge * W + linear_term, products

        tolerance, guide = TOLERANCE * total, data.guide(None, ridge)
        found = inexact_newton.minimize(both, self.weights, tolerance, guide=guide, min_steps=1)
        return found.weights


def retrain(method: Method, data: Engine, linear_term: np.ndarray | None = None) -> Retraining:
    """Train on the remaining rows from nothing, without noise, as far as float64 goes.

    linear_term: of INFLUENCE's objective, which is part of what is minimised.
    """
    s = method.settings.without_options(tol=TOLERANCE, sigma=0.0, solver="newton")
    exact = Retrain(s)
    weights = exact.optimum(data, np.random.default_rng(0), linear_term=linear_term)
    ridge = exact.ridge(data)
    gradient = data.gradient_sum(weights) + ridge * weights
    if linear_term is not None:
        gradient = gradient + linear_term
    if not data.forms_hessian:
        # The Hessian is at least the ridge; along an intercept left out, by the rows alone.
        floor = float(np.linalg.norm(gradient) / np.sqrt(np.max(ridge)))
        _, _, products = exact.objective(data).value_gradient_products(weights)
        return Retraining(weights, None, floor, linear_term, s, products)
    if data.d > WIDEST:
        if isinstance(ridge, np.ndarray):  # the objective is curved by more than it, but how much?
            pairs = zip(data.factors(weights, None, ridge), gradient, strict=True)
            floor = float(np.linalg.norm([factor.solve(g) for factor, g in pairs]))
        else:
            floor = float(np.linalg.norm(gradient)) / ridge
        return Retraining(weights, None, floor, linear_term, s)
    factors = [Cholesky.of(h) for h in with_ridge(data.hessian_sum(weights), ridge)]
    left = [
        scipy.linalg.solve_triangular(f.lower, g, lower=True)
        for f, g in zip(factors, gradient, strict=True)
    ]
    return Retraining(weights, factors, float(np.linalg.norm(left)), linear_term, s)


def replayed(state: State, data: Engine) -> np.ndarray | None:
    """A stored SGD run made again on the remaining rows, every step of it computed."""
    run = state.run
    if run is None:
        return None
    fate = np.where(data.remaining, PRESENT, GONE).astype(np.uint8)[run.row_of]
    target = TrajectoryFile(run.file.array.shape)
    own = sgd_engine(data.shared(), "To replay a stored run")
    weights, _ = own.replay(
        own.lay_out(run.row_of),
        run.plan,
        Cadence(0, 1),
        fate,
        run.counts,
        old=run.file.array,
        new=target.array,
        radius=run.radius * data.loss.max_slope,
    )
    return weights


def draw(
    method: Method, data: Engine, optimum: np.ndarray, count: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """The weights of so many retrainings as they would be released, with fresh randomness."""
    same = type(method).train is Method.train and method.solver == "newton"
    if same:  # whose optimum is the same every time: the noise alone is drawn again
        return [method.released(optimum, data, rng) for _ in range(count)]
    return [method.train(data, rng).weights for _ in range(count)]
