"""Small problems with their optimum in extended precision."""

from dataclasses import dataclass

import numpy as np

from unfit.core.losses import LOGISTIC, Loss
from unfit.core.objective import Rows
from unfit.engines.base import Engine, make_engine


@dataclass(frozen=True)
class Small:
    """Rows of k one-vs-rest problems (k = 1: two classes), and those that leave."""

    X: np.ndarray
    codes: np.ndarray
    classes: int
    l2: float
    deleted: np.ndarray
    loss: Loss = LOGISTIC

    def engine(self) -> Engine:
        data = make_engine(Rows(self.X, self.codes, True, self.loss), self.classes)
        data.precise = True
        return data

    @property
    def mask(self) -> np.ndarray:
        mask = np.ones(len(self.X), np.bool_)
        mask[self.deleted] = False
        return mask


def draw(rng: np.random.Generator, *, most: float = 0.5, dtype: str = "float64") -> Small:
    """A random problem: m = 1 .. most n rows leave, k = 1 .. 5, l2 = 1e-4 .. 1e-1."""
    n, d = int(rng.integers(40, 160)), int(rng.integers(2, 8))
    classes = int(rng.integers(2, 6))
    X = rng.standard_normal((n, d)) * rng.choice([0.1, 1.0, 3.0])
    scores = X @ rng.standard_normal((d, classes)) + rng.standard_normal((n, classes))
    codes = scores.argmax(axis=1).astype(np.int32)
    codes[:classes] = np.arange(classes)  # no class is empty
    m = int(rng.integers(1, max(2, int(most * n))))
    deleted = classes + rng.choice(n - classes, m, replace=False)
    l2 = float(10 ** rng.uniform(-4, -1))
    return Small(X.astype(dtype), codes, classes, l2, np.sort(deleted))


def optimum(small: Small, mask: np.ndarray) -> np.ndarray:
    """Of the rows of a mask, by Newton's method in long double, (k, d)."""
    wide = np.longdouble
    X = np.column_stack([small.X[mask], np.ones(int(mask.sum()))]).astype(wide)
    k = 1 if small.classes == 2 else small.classes
    ridge = wide(small.l2) * len(X)
    found = []
    for c in range(k):
        target = (small.codes[mask] == (1 if k == 1 else c)).astype(wide)
        w = np.zeros(X.shape[1], wide)
        for _ in range(100):
            margin = X @ w
            p = 1 / (1 + np.exp(-margin))
            gradient = X.T @ (p - target) + ridge * w
            hessian = (X.T * (p * (1 - p))) @ X + ridge * np.eye(len(w), dtype=wide)
            step = np.linalg.solve(hessian.astype(np.float64), gradient.astype(np.float64))
            value = _value(X, target, w, ridge)
            size = wide(1)
            while _value(X, target, w - size * step, ridge) > value and size > 1e-6:
                size /= 2
            w = w - size * step
            if np.linalg.norm(step.astype(np.float64)) < 1e-17 * (
                1 + np.linalg.norm(w.astype(float))
            ):
                break
        found.append(w)
    return np.array(found)


def _value(X: np.ndarray, target: np.ndarray, w: np.ndarray, ridge: np.longdouble) -> np.longdouble:
    margin = X @ w
    loss = np.maximum(margin, 0) + np.log1p(np.exp(-np.abs(margin))) - target * margin
    return loss.sum() + ridge / 2 * (w @ w)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(((np.asarray(a, np.longdouble) - b) ** 2).sum()))
