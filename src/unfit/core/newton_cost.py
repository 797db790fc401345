"""What Newton's method costs with Hessians and by products, counted in flops and bytes.

The unit is the time in which memory delivers a byte. BLAS does SYRK flops in that time on float32
rows, our kernels KERNEL, a Cholesky factorisation one. For k problems of d columns over rows that
hold so many numbers:

    product   numbers (bytes of a number + 4 k / KERNEL)     one pass for all problems
    Hessian   k (numbers d / SYRK + d^3 / 3)                 or, for n < d rows, by the n x n matrix
                                                             of their products, made once

Knows nothing of ours.
"""

import math
from dataclasses import dataclass

SYRK = 4.0  # flops of BLAS for each byte of memory
NARROW = 256  # columns, below which a Hessian is cheap, and its steps fear no bad conditioning
KERNEL = 1.25
PRODUCTS_PER_HESSIAN = 8  # fits of images take 30 to 50 products where 5 to 6 Hessians do
SAMPLE_PER_COLUMN = 2  # rows of a sample, of which the Hessian guides well
FEWEST_PRODUCTS = 64  # before a sample is looked at: fits of images end sooner
_STEPS = 5  # that share a matrix of products of rows


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """numbers: in the n rows that a pass reads."""

    n: int
    d: int
    k: int
    numbers: int
    itemsize: int

    @property
    def product(self) -> float:
        """A pass for the products of all problems."""
        return self.numbers * (self.itemsize + 4 * self.k / KERNEL)

    @property
    def hessian(self) -> float:
        """The Hessians of all problems with their factors."""
        primal = self.k * (self.numbers * self.d / SYRK + self.d**3 / 3)
        if self.n >= self.d:
            return primal
        dual = self.numbers * self.n / SYRK / _STEPS + self.k * self.n**3 / 3
        return min(primal, dual)

    def sample(self, per_column: int = SAMPLE_PER_COLUMN) -> int:
        """Rows of which the Hessian is a guide."""
        return min(self.n, per_column * self.d)

    def guide(self, per_column: int = SAMPLE_PER_COLUMN) -> float:
        """The Hessians of a sample with their factors."""
        numbers = self.numbers * self.sample(per_column) / max(1, self.n)
        return self.k * (numbers * self.d / SYRK + self.d**3 / 3)

    def products_are_cheaper(self) -> bool:
        """Whether a minimum is found sooner without a Hessian."""
        return self.d >= NARROW and PRODUCTS_PER_HESSIAN * self.product < self.hessian

    def products_per_guide(self) -> int:
        """How many products cost as much as the guide from a sample."""
        return max(FEWEST_PRODUCTS, math.ceil(self.guide() / max(1.0, self.product)))
