"""No bound is below the truth."""

import math

import numpy as np
import pytest
from problems import Small, distance, draw, optimum
from scipy.optimize import brentq

from tiers import mostly_slow
from unfit.certify import bounds
from unfit.certify.lengths import Spread


def problem_of(small: Small, n: int) -> bounds.Problem:
    lengths = np.sqrt((small.X.astype(np.float64) ** 2).sum(axis=1).max() + 1)
    return bounds.Problem(
        n=n,
        total_weight=float(n),
        summed_ridge=small.l2 * n,
        d=small.X.shape[1] + 1,
        ridge=small.l2 * n,
        radius=float(lengths),
        max_curvature=0.25,
        max_slope=1.0,
        slope_at_zero=0.5,
    )


def sums(small: Small, W: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F and H of the rows of a mask, regulariser included."""
    data = small.engine()
    ridge = small.l2 * int(mask.sum())
    gradient = data.gradient_sum(W, mask) + ridge * W
    return gradient, data.hessian_sum(W, mask) + ridge * np.eye(data.d)


@pytest.mark.parametrize("block", mostly_slow(range(10), [0]))
def test_no_bound_is_below_the_distance(block: int) -> None:
    """A thousand random problems, a hundred at a time; a single row leaves, or up to half."""
    rng = np.random.default_rng(block)
    ended = 0
    for _ in range(100):
        small = draw(rng)
        everything = np.ones(len(small.X), np.bool_)
        start = optimum(small, everything).astype(np.float64)
        best = optimum(small, small.mask)
        problem = problem_of(small, int(small.mask.sum()))
        gradient, hessian = sums(small, start, small.mask)
        step = -np.array([np.linalg.solve(h, g) for h, g in zip(hessian, gradient, strict=True)])
        if rng.random() < 0.3:  # a step that was not solved well
            step *= 1 + 0.1 * rng.standard_normal()
        product = np.einsum("kij,kj->ki", hessian, step)
        centre = start + step
        truth = distance(centre, best)
        after, curved = sums(small, centre, small.mask)
        solved = np.array([np.linalg.solve(h, g) for h, g in zip(curved, after, strict=True)])
        back = np.einsum("kij,kj->ki", curved, solved)
        spread = Spread.of(small.engine())
        found = [
            bounds.by_step(problem, start, step, gradient, product),
            bounds.by_step(problem, start, step, gradient, product, spread.reach(step)),
            bounds.by_gradient(problem, centre, after),
            bounds.by_factor(problem, centre, after, solved, back),
        ]
        assert min(found) >= truth
        again = -np.array([np.linalg.solve(h, g) for h, g in zip(hessian, after, strict=True)])
        walk = bounds.Walk(before=spread.reach(step), step=spread.reach(again))
        held = np.einsum("kij,kj->ki", hessian, again)
        later = bounds.by_later_step(problem, centre, again, after, held, walk)
        assert later >= distance(centre + again, best)
        ended += found[0] < 50 * max(truth, 1e-9)
    assert ended > 5  # the bound without a pass says something, too


def test_the_bound_with_a_factor_is_close() -> None:
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(60):
        small = draw(rng, most=0.05)
        start = optimum(small, np.ones(len(small.X), np.bool_)).astype(np.float64)
        best = optimum(small, small.mask)
        problem = problem_of(small, int(small.mask.sum()))
        for _ in range(2):  # at the old optimum, and after a Newton step
            gradient, hessian = sums(small, start, small.mask)
            pairs = zip(hessian, gradient, strict=True)
            solved = np.array([np.linalg.solve(h, g) for h, g in pairs])
            back = np.einsum("kij,kj->ki", hessian, solved)
            found = bounds.by_factor(problem, start, gradient, solved, back)
            truth = distance(start, best)
            if math.isfinite(found) and truth > 1e-9:
                ratios.append(found / truth)
            start = start - solved
    assert len(ratios) > 40
    assert np.median(ratios) < 1.25


def test_no_row_moves_farther_than_the_reach_of_a_step() -> None:
    rng = np.random.default_rng(4)
    shorter = 0
    for _ in range(50):
        small = draw(rng, dtype="float32")
        X = small.X + np.float32(rng.choice([0.0, 5.0]))  # about 0, and far from it
        small = Small(X, small.codes, small.classes, small.l2, small.deleted)
        data = small.engine()
        rows = np.column_stack([X.astype(np.float64), np.ones(len(X))])
        step = rng.standard_normal((data.k, data.d)) * 10 ** rng.uniform(-6, 1)
        step -= rng.uniform() * (step @ rows.mean(axis=0))[:, None] * rows.mean(axis=0) / len(X)
        found = Spread.of(data).reach(step)
        assert (np.abs(rows @ step.T).max(axis=0) <= found).all()
        longest = float(np.linalg.norm(rows, axis=1).max())
        shorter += found[0] < longest * np.linalg.norm(step[0])
    assert shorter > 10


def test_the_solution_of_the_step_bound_is_the_largest() -> None:
    """x = a + b sqrt(1 + R x), against a search."""
    rng = np.random.default_rng(5)
    for _ in range(100):
        problem = bounds.Problem(
            n=100,
            total_weight=100.0,
            summed_ridge=1.0,
            d=3,
            ridge=float(10 ** rng.uniform(-2, 2)),
            radius=float(10 ** rng.uniform(-1, 1)),
            max_curvature=0.25,
            max_slope=1.0,
            slope_at_zero=0.5,
        )
        undone, curved = 10 ** rng.uniform(-6, 1, 2)
        a, b = undone / problem.ridge, curved / (2 * math.sqrt(problem.ridge))

        def gap(x: float, a: float = a, b: float = b, radius: float = problem.radius) -> float:
            return x - a - b * math.sqrt(1 + radius * x)

        root = brentq(gap, a, 1e9, rtol=1e-12)
        assert bounds._fixed_point(problem, undone, curved) == pytest.approx(root, rel=1e-9)


def test_classes_add_up_as_squares_do() -> None:
    assert bounds.together([3.0, 4.0]) == 5.0
    assert math.isinf(bounds.together([1.0, math.inf]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_of_a_gradient_is_within_what_is_allowed_for_it(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        small = draw(rng, dtype=dtype)
        data = small.engine()
        W = rng.standard_normal((data.k, data.d))
        computed = data.gradient_sum(W)
        X = np.column_stack([small.X.astype(np.longdouble), np.ones(len(small.X))])
        codes = [1] if data.k == 1 else range(data.k)
        exact = []
        for w, code in zip(W, codes, strict=True):
            p = 1 / (1 + np.exp(-(X @ w)))
            exact.append(X.T @ (p - (small.codes == code)))
        problem = problem_of(small, len(small.X))
        for one, true, w in zip(computed, exact, W, strict=True):
            assert distance(one, true) <= problem.rounding(float(np.linalg.norm(w)))


def test_precise_hessians_are_float64s_whatever_the_rows_are() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((500, 40)).astype(np.float32)
    small = Small(X, (X[:, 0] > 0).astype(np.int32), 2, 1e-3, np.array([0]))
    data = small.engine()
    W = rng.standard_normal((1, 41))
    wide = Small(X.astype(np.float64), small.codes, 2, 1e-3, small.deleted).engine()
    np.testing.assert_allclose(data.hessian_sum(W), wide.hessian_sum(W), rtol=1e-12, atol=1e-12)
    data.precise = False
    assert np.abs(data.hessian_sum(W) - wide.hessian_sum(W)).max() > 1e-9


def test_far_steps_have_no_bound() -> None:
    small = draw(np.random.default_rng(3))
    problem = problem_of(small, 50)
    zeros = np.zeros((1, problem.d))
    far = np.full((1, problem.d), 100.0)
    assert math.isinf(bounds.by_step(problem, zeros, far, zeros, far))
    assert math.isinf(bounds.by_factor(problem, zeros, far * 1e9, far * 1e9, far * 1e9))
