"""What every engine offers: sums over rows, and the two loops that walk through them.

An engine holds the rows a model was trained on and the mask of those that remain. Methods ask it
for sums and never see where the rows are. A new engine is one file that satisfies this protocol.
May know core.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np

from unfit.core.class_split import ClassSplit
from unfit.core.factors import Factor
from unfit.core.objective import Rows
from unfit.core.replay import Cadence
from unfit.core.sgd import Layout, Plan
from unfit.core.statistics import Statistics
from unfit.progress import ProgressCallback


class Engine(Protocol):
    """Rows, their class codes, and sums over those that remain.

    `mask` is None for the remaining rows, or a boolean array over all rows.
    W is (k, d) float64, d counts the intercept.
    """

    @property
    def d(self) -> int: ...

    @property
    def k(self) -> int: ...

    @property
    def remaining(self) -> np.ndarray:
        """Boolean mask over all rows; not to be written."""
        ...

    @property
    def n_remaining(self) -> int: ...

    @property
    def codes(self) -> np.ndarray:
        """The class code of every row."""
        ...

    def shared(self) -> Self:
        """The same rows with a mask of its own, to try a deletion on."""
        ...

    def without(self, rows: np.ndarray) -> np.ndarray:
        """The mask of the rows that remain when `rows` leave."""
        ...

    def forget(self, rows: np.ndarray) -> None:
        """Drop rows from the data. Methods never call it: whoever employs the new model does."""
        ...

    def take(self, rows: np.ndarray) -> Rows: ...

    def sums_of(self, W: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient (k, d) and Hessian (k, d, d) sums of the given rows."""
        ...

    def class_split(self, known: Statistics) -> ClassSplit | None:
        """Sums of each of two classes at the weights of those known, where they can be used."""
        ...

    def by_class_split(self, known: Statistics, rows: np.ndarray) -> tuple[np.ndarray, Factor]:
        """The gradient sum (1, d) of the given rows, and the Hessian of those that remain then.

        From sums of each class: where most of one goes, the rows that stay are looked at.
        """
        ...

    def margins(self, W: np.ndarray, rows: np.ndarray) -> np.ndarray: ...

    def value_gradient_sum(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def gradient_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray: ...

    def hessian_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray: ...

    def wide(self, mask: np.ndarray | None = None) -> bool:
        """Whether there are so many more columns than rows that no d x d matrix is to be made."""
        ...

    def factors(self, W: np.ndarray, mask: np.ndarray | None, ridge: float) -> Sequence[Factor]:
        """The Hessian sum of each problem plus ridge I, ready to be solved with."""
        ...

    def gradient_and_products(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, Callable[[int, np.ndarray], np.ndarray]]:
        """The gradient sum, and product(c, v): the Hessian sum of problem c times v."""
        ...

    def gram_sum(self, mask: np.ndarray | None = None) -> np.ndarray: ...

    def lay_out(self, row_of: np.ndarray) -> Layout:
        """The given rows in the given order, as the SGD loops want them; the last one is kept."""
        ...

    def drop_layout(self) -> None: ...

    def sgd(
        self,
        layout: Layout,
        plan: Plan,
        start: np.ndarray,
        *,
        linear_term: np.ndarray | None = None,
        trajectory: np.ndarray | None = None,
        progress: ProgressCallback | None = None,
    ) -> np.ndarray: ...

    def replay(
        self,
        layout: Layout,
        plan: Plan,
        cadence: Cadence,
        fate: np.ndarray,
        counts: np.ndarray,
        old: np.ndarray,
        new: np.ndarray,
        *,
        radius: float = np.inf,
        progress: ProgressCallback | None = None,
    ) -> tuple[np.ndarray, np.ndarray]: ...
