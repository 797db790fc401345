"""The optimum of the rows of an engine, by Newton's method: with Hessians or by products.

Few columns: a Hessian costs little and its steps are exact (core.newton). Many: no Hessian is made,
and steps come from products (core.inexact_newton), with whatever guide is at hand. The choice is
that of core.newton_cost. The gradient that decides is float64's either way. May know core and
engines.base.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unfit.core import inexact_newton, newton
from unfit.core.conjugate_gradients import Guide, Offer, Products
from unfit.core.factors import Cholesky, Factor
from unfit.core.newton import MAX_STEPS, Minimum
from unfit.core.newton_cost import SAMPLE_PER_COLUMN, Sizes
from unfit.core.penalty import Penalty, Ridge, penalty_value, with_ridge
from unfit.engines.base import Engine
from unfit.errors import TooLarge

WARM = 1e-2  # how far the first step from given weights is solved: they are near the optimum


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The sum over the rows of a mask (None: the remaining) with its penalty, for as long as no
    more rows leave.

    linear_term (k, d): added to the gradient, as INFLUENCE's noise is.
    """

    data: Engine
    mask: np.ndarray | None
    penalty: Penalty
    linear_term: np.ndarray | None = None

    @property
    def n(self) -> int:
        return self.data.n_remaining if self.mask is None else int(np.count_nonzero(self.mask))

    @cached_property
    def ridge(self) -> Ridge:
        return self.penalty.on(self.total_weight, self.data.d)

    @property
    def total_weight(self) -> float:
        return self.data.total_weight(self.mask)

    def value_gradient(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._regularised(W, *self.data.value_gradient_sum(W, self.mask))

    def gradient(self, W: np.ndarray) -> np.ndarray:
        found = self.data.gradient_sum(W, self.mask) + self.ridge * W
        return found if self.linear_term is None else np.asarray(found + self.linear_term)

    def value_gradient_products(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray, Products]:
        value, gradient, products = self.data.value_gradient_products(W, self.mask)
        return *self._regularised(W, value, gradient), self.data.regularised(products, self.ridge)

    def _regularised(
        self, W: np.ndarray, value: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        ridge = self.ridge
        value, gradient = value + penalty_value(W, ridge), gradient + ridge * W
        if self.linear_term is None:
            return value, gradient
        return value + np.einsum("kd,kd->k", self.linear_term, W), gradient + self.linear_term

    def factors(self, W: np.ndarray) -> Sequence[Factor]:
        return self.data.factors(W, self.mask, self.ridge)

    @property
    def sizes(self) -> Sizes:
        data, n = self.data, self.n
        numbers = data.numbers * n // max(1, data.n_remaining)
        return Sizes(n=n, d=data.d, k=data.k, numbers=numbers, itemsize=data.dtype.itemsize)

    @property
    def by_products(self) -> bool:
        """Whether products lead to a step for less than a Hessian does, or are all there is."""
        if not self.data.forms_hessian:
            return True
        return not self.data.products_need_hessians and self.sizes.products_are_cheaper()

    @property
    def product_dtype(self) -> np.dtype:
        """Of vectors in conjugate gradients: one problem's product is bound by memory either way,
        and float64 needs fewer of them; several are bound by arithmetic, which is float64's where
        no Hessian is made."""
        precise = self.data.k == 1 or self.data.precise or not self.data.forms_hessian
        return np.dtype(np.float64) if precise else self.data.dtype

    @property
    def offer(self) -> Offer | None:
        """A guide that can be made: of the engine's own kind, else from a sample of the rows."""
        own = self.data.offer(self.mask, self.ridge)
        if own is not None or not self.data.forms_hessian:
            return own
        return Offer(make=self.sampled_guide, products=self.sizes.products_per_guide())

    def sampled_guide(self, W: np.ndarray) -> Sequence[Factor]:
        """Factors of the Hessians of a few of the rows, in the place of all."""
        return [Cholesky.of(h) for h in self.sampled_hessians(W)]

    def sampled_hessians(self, W: np.ndarray, per_column: int = SAMPLE_PER_COLUMN) -> np.ndarray:
        """The Hessians (k, d, d), as a few of the rows tell them that are evenly spread."""
        n, size = self.n, self.sizes.sample(per_column)
        sample = self.data.nth(np.linspace(0, n - 1, size).astype(np.intp), self.mask)
        return with_ridge(self.data.sums_of(W, sample)[1] * (n / size), self.ridge)


def minimize(
    objective: Objective,
    tol: float,
    *,
    start: np.ndarray | None = None,
    near: bool = True,
    guide: Guide | None = None,
    max_steps: int = MAX_STEPS,
) -> Minimum:
    """The optimum to |gradient| <= tol n, from given weights or from 0, by the cheaper way.

    guide: about the inverse Hessians. From given weights at least one step is taken: a single row
    may weigh less than the tolerance. near: whether given weights are near the optimum, so that
    the first step is worth solving well.
    """
    data = objective.data
    if guide is None:
        guide = data.guide(objective.mask, objective.ridge)
    origin = np.zeros((data.k, data.d)) if start is None else start
    tolerance, least = tol * objective.total_weight, 0 if start is None else 1
    by_products = objective.by_products or (guide and not data.products_need_hessians)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused below
        if by_products:
            found = inexact_newton.minimize(
                objective.value_gradient_products,
                origin,
                tolerance,
                guide=guide,
                offer=objective.offer,
                min_steps=least,
                max_steps=max_steps,
                first=inexact_newton.LOOSEST if start is None or not near else WARM,
                dtype=objective.product_dtype,
            )
        else:
            found = newton.minimize(
                objective.value_gradient,
                objective.factors,
                origin,
                tolerance,
                min_steps=least,
                max_steps=max_steps,
            )
    if not np.isfinite(found.residual).all():
        raise TooLarge
    return found
