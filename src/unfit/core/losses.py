"""The loss of a row, as a function of its margin x.w and its target t (1 in the class, 0 outside).

    L(w)     = sum value(x.w, t) + (l2 n / 2) |w|^2
    gradient = sum slope(x.w, t) x + l2 n w
    hessian  = sum curvature(x.w, t) x x^T + l2 n I

A loss is one class with these three formulae, which are compiled into every kernel. A formula takes
numbers and arrays alike: use operators and functions of NumPy that numba knows, and nothing of
`self`. A package adds a loss by an entry point of the group "unfit.losses"; what everything here
relies on is checked by `unfit.testing.check_loss`. Knows core.kernels.margin and the registry.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from unfit.core.kernels.logistic import logistic_slopes, logistic_terms, sigmoid
from unfit.core.kernels.margin import CompiledLoss, compile_loss
from unfit.loss_registry import LOSSES as LOSSES


class Loss(ABC):
    """A convex loss, once differentiable, with a curvature almost everywhere."""

    name: ClassVar[str]
    title: ClassVar[str]
    max_curvature: ClassVar[float]  # over all margins: says which steps of SGD are too long
    max_slope: ClassVar[float] = math.inf  # in absolute value, over all margins
    # Whether the curvature changes by factors within exp(+-|change of the margin|), as certificates
    # use it where they need no pass over the rows.
    self_concordant: ClassVar[bool] = False
    probabilistic: ClassVar[bool] = False  # whether it estimates the probability of the class

    @staticmethod
    @abstractmethod
    def value(margin: Any, target: Any) -> Any:
        """The loss itself."""

    @staticmethod
    @abstractmethod
    def slope(margin: Any, target: Any) -> Any:
        """Its derivative by the margin."""

    @staticmethod
    @abstractmethod
    def curvature(margin: Any, target: Any) -> Any:
        """Its second derivative by the margin, >= 0."""

    def slope_and_curvature(self, margin: np.ndarray, target: np.ndarray) -> tuple[Any, Any]:
        """Both, for arrays; a loss whose derivatives have a part in common computes it once."""
        return self.slope(margin, target), self.curvature(margin, target)

    @staticmethod
    def probability(margin: np.ndarray) -> np.ndarray:
        """How likely the class is at a margin, between 0 and 1, and 1/2 at a margin of 0.

        Losses that estimate no probability have their margins, -1 to 1, stretched to that range;
        audits compare models by it.
        """
        return np.asarray(np.clip(0.5 + 0.5 * margin, 0.0, 1.0))

    @property
    def compiled(self) -> CompiledLoss:
        """The loss as kernels take it."""
        kind = type(self)
        if kind not in _COMPILED:
            name = f"{kind.__module__}.{kind.__qualname__}"
            fast = (logistic_slopes, logistic_terms) if kind is Logistic else None
            _COMPILED[kind] = compile_loss(name, (kind.value, kind.slope, kind.curvature), fast)
        return _COMPILED[kind]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


_COMPILED: dict[type[Loss], CompiledLoss] = {}


class Logistic(Loss):
    """softplus(m) - t m, the negative log-likelihood of logistic regression."""

    name = "logistic"
    title = "Logistic"
    max_curvature = 0.25
    max_slope = 1.0
    self_concordant = True
    probabilistic = True

    @staticmethod
    def value(margin: Any, target: Any) -> Any:
        return np.maximum(margin, 0.0) + np.log1p(np.exp(-np.abs(margin))) - target * margin

    @staticmethod
    def slope(margin: Any, target: Any) -> Any:
        return sigmoid(margin) - target

    @staticmethod
    def curvature(margin: Any, target: Any) -> Any:
        p = sigmoid(margin)
        return p * (1 - p)

    def slope_and_curvature(self, margin: np.ndarray, target: np.ndarray) -> tuple[Any, Any]:
        p = sigmoid(margin)
        return p - target, p * (1 - p)

    @staticmethod
    def probability(margin: np.ndarray) -> np.ndarray:
        return np.asarray(sigmoid(margin))


class SquaredError(Loss):
    """(m - y)^2 / 2 with y = 2 t - 1: ridge regression on labels of -1 and 1.

    The curvature is 1 everywhere, so that one Newton step is exact: a deletion is unlearned by it.
    """

    name = "squared-error"
    title = "Squared error"
    max_curvature = 1.0
    self_concordant = True  # it does not change at all

    @staticmethod
    def value(margin: Any, target: Any) -> Any:
        return 0.5 * (margin - (2.0 * target - 1.0)) ** 2

    @staticmethod
    def slope(margin: Any, target: Any) -> Any:
        return margin - (2.0 * target - 1.0)

    @staticmethod
    def curvature(margin: Any, target: Any) -> Any:
        return 0.0 * margin + 1.0


class SquaredHinge(Loss):
    """max(0, 1 - y m)^2 with y = 2 t - 1: a linear support vector machine."""

    name = "squared-hinge"
    title = "Squared hinge"
    max_curvature = 2.0

    @staticmethod
    def value(margin: Any, target: Any) -> Any:
        return np.maximum(0.0, 1.0 - (2.0 * target - 1.0) * margin) ** 2

    @staticmethod
    def slope(margin: Any, target: Any) -> Any:
        y = 2.0 * target - 1.0
        return -2.0 * y * np.maximum(0.0, 1.0 - y * margin)

    @staticmethod
    def curvature(margin: Any, target: Any) -> Any:
        return 2.0 * np.sign(np.maximum(0.0, 1.0 - (2.0 * target - 1.0) * margin))


LOGISTIC = Logistic()
