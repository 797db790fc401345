"""Sums over rows on a device: values, gradients, products with the Hessians, and these themselves.

    gradient = X^T slope(X w)       product = X^T (curvature * X v)       Hessian = U^T U

with U = sqrt(curvature) X. Values, gradients and products are float64's throughout, as residuals of
1e-8 need them: by one fused kernel that reads float32 rows once and widens them in registers, where
there is one (fused.py), else by blocks that are widened first. A Hessian is summed in the precision
of the rows inside a block of them and in float64 across, or in float64 throughout (`precise`), or
inside blocks by tensor cores that round to TF32 (`rough`), which is good enough for a guide.

A weight (n,) multiplies every row: 0 for those left out; None is 1 for all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from unfit.core.losses import Loss
from unfit.core.objective import positive_codes
from unfit.engines.device import fused
from unfit.engines.device.losses import Formulae, Value, formulae_of, number_of, value_of
from unfit.engines.device.memory import to_device
from unfit.engines.device.rows import Block, DeviceRows

WIDENED_BYTES = 24 << 20  # of a block in float64: it stays in the cache of a GPU
HESSIAN_ROWS = 1 << 14  # of a block on a GPU: its product is bound by arithmetic alone
SCALED_BYTES = 64 << 20  # of several blocks whose rows a GPU scales and multiplies at once
HESSIAN_BYTES = 2 << 20  # of a block on a CPU, as in core.objective
PANELS_FROM = 1024  # columns, from which the lower half of a Hessian is left out
_ALIGNED = 8  # columns: tensor cores want rows that start at whole 16 bytes

# Of a block: the square roots of what multiplies each row, (rows, k)
Roots = Callable[[Block, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """Values (k,), gradients (k, d) and, if asked for, weighted curvatures (k, n).

    both (k, d + 1) holds gradients and values, so that they cross to the host at once.
    """

    both: torch.Tensor
    curvatures: torch.Tensor | None

    @property
    def values(self) -> torch.Tensor:
        return self.both[:, -1]

    @property
    def gradients(self) -> torch.Tensor:
        return self.both[:, :-1]


class Sums:
    """Sums over the rows of a device, for k problems with a loss."""

    def __init__(
        self, rows: DeviceRows, codes: np.ndarray, loss: Loss, *, k: int, intercept: bool
    ) -> None:
        self.rows, self.loss, self.k, self.intercept = rows, loss, k, intercept
        self.device, self.p, self.d = rows.device, rows.p, rows.p + intercept
        self.codes = to_device(codes.astype(np.int32, copy=False), rows.device)
        self.positive = to_device(positive_codes(k), rows.device)
        self._formulae: Formulae = formulae_of(loss)
        self._value: Value = value_of(loss)
        self.on_device = number_of(loss) is not None  # the loss, and not on the host
        self.fused = fused.usable(rows, k) and self.on_device

    # --- passes in float64 ---------------------------------------------------------------------

    def evaluate(self, W: torch.Tensor, weight: torch.Tensor | None, keep: bool) -> Evaluated:
        """Values and gradients at W (k, d); keep: curvatures too."""
        k, n = len(W), len(self.rows)
        both = torch.zeros((k, self.d + 1), dtype=torch.float64, device=self.device)
        curvatures = None
        if keep:
            curvatures = torch.empty((k, n), dtype=torch.float64, device=self.device)
        found = Evaluated(both=both, curvatures=curvatures)
        if self.fused:
            for block in self.rows.blocks(n):
                fused.add_value_gradient(self, block, W, weight, found)
            return found
        for block in self.rows.blocks(self._widened_rows()):
            self._add(block, W, weight, found)
        return found

    def products(self, curvatures: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        """sum curvature x (x.v) for curvatures (j, n) and vectors V (j, d), one pass for all."""
        out = torch.zeros((len(V), self.d), dtype=torch.float64, device=self.device)
        if self.fused:
            for block in self.rows.blocks(len(self.rows)):
                fused.add_products(self, block, curvatures, V, out)
            return out
        kind = self.rows.dtype if V.dtype == torch.float32 else torch.float64
        vectors = V.to(kind)
        for block in self.rows.blocks(self._widened_rows()):
            X = block.X.to(kind)
            through = self._margins(X, vectors) * curvatures[:, block.start : block.stop].T.to(kind)
            self._add_through(out, through, X)
        return out

    def _add(
        self, block: Block, W: torch.Tensor, weight: torch.Tensor | None, found: Evaluated
    ) -> None:
        X = block.X.to(torch.float64)
        value, slope, curvature = self._at(block, X, W, weight)
        found.values.add_(value.sum(dim=0))
        self._add_through(found.gradients, slope, X)
        if found.curvatures is not None:
            found.curvatures[:, block.start : block.stop] = curvature.T

    def slopes(self, X: torch.Tensor, codes: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
        """The slope of the loss for some rows and every problem, (rows, k)."""
        margin = self._margins(X, W)
        return self._formulae(margin, (codes[:, None] == self.positive).to(margin.dtype))[1]

    def through(self, slope: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        """sum slope x over some rows, (k, d)."""
        out = torch.zeros((slope.shape[1], self.d), dtype=torch.float64, device=self.device)
        self._add_through(out, slope, X)
        return out

    def value_curvature(
        self,
        part: slice,
        margins: torch.Tensor,
        problem: int,
        weight: torch.Tensor | None,
        *,
        curved: bool,
    ) -> tuple[torch.Tensor, ...]:
        """Value and, if curved, curvature (rows,) of a part of the rows, from margins (rows, 1)."""
        target = (self.codes[part, None] == self.positive[problem]).to(margins.dtype)
        found = self._formulae(margins, target)[::2] if curved else (self._value(margins, target),)
        flat = tuple(one[:, 0] for one in found)
        if weight is None:
            return flat
        left_out = weight == 0  # whatever overflows there
        return tuple(torch.where(left_out, 0.0, one * weight) for one in flat)

    def _at(
        self, block: Block, X: torch.Tensor, W: torch.Tensor, weight: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Value, slope and curvature of every row and problem, weighted."""
        margin = self._margins(X, W)
        codes = self.codes[block.start : block.stop]
        target = (codes[:, None] == self.positive).to(margin.dtype)
        value, slope, curvature = self._formulae(margin, target)
        if weight is None:
            return value, slope, curvature
        times = weight[block.start : block.stop, None].to(margin.dtype)
        left_out = times == 0  # whatever overflows there
        return (
            torch.where(left_out, 0.0, value * times),
            torch.where(left_out, 0.0, slope * times),
            torch.where(left_out, 0.0, curvature * times),
        )

    def _margins(self, X: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
        W = W.to(X.dtype)
        margin = X @ W[:, : self.p].T
        return margin + W[:, self.p] if self.intercept else margin

    def _add_through(self, out: torch.Tensor, through: torch.Tensor, X: torch.Tensor) -> None:
        out[:, : self.p].add_(through.T @ X)
        if self.intercept:
            out[:, self.p].add_(through.sum(dim=0, dtype=torch.float64))

    def _widened_rows(self) -> int:
        return max(1, WIDENED_BYTES // (8 * max(1, self.p)))

    # --- Hessians ------------------------------------------------------------------------------

    def hessians(
        self,
        W: torch.Tensor,
        weight: torch.Tensor | None,
        *,
        precise: bool = False,
        rough: bool = False,
    ) -> torch.Tensor:
        """sum curvature x x^T for each problem, (k, d, d)."""
        kind = torch.float64 if precise else self.rows.dtype

        def roots(block: Block, X: torch.Tensor) -> torch.Tensor:
            return torch.sqrt(self._at(block, X, W, weight)[2])

        with matmul_precision(self.device, rough):
            return self._gram(len(W), kind, roots)

    def gram(self, weight: torch.Tensor | None) -> torch.Tensor:
        """sum x x^T, (d, d), of the rows whose weight is not 0."""

        def ones(block: Block, X: torch.Tensor) -> torch.Tensor:
            if weight is None:
                return torch.ones((len(X), 1), dtype=X.dtype, device=self.device)
            return (weight[block.start : block.stop, None] != 0).to(X.dtype)

        with matmul_precision(self.device, False):
            return self._gram(1, self.rows.dtype, ones)[0]

    def _gram(self, k: int, kind: torch.dtype, roots: Roots) -> torch.Tensor:
        p, total = self.p, torch.zeros((k, self.d, self.d), dtype=torch.float64, device=self.device)
        rows = self._hessian_rows()
        step = min(rows * self._blocks_at_once(rows), max(1, len(self.rows)))
        width = -(-p // _ALIGNED) * _ALIGNED
        scratch = torch.empty((step, width), dtype=kind, device=self.device)
        for block in self.rows.blocks(step):
            X, U = block.X.to(kind), scratch[: block.stop - block.start, :p]
            for c, root in enumerate(roots(block, X).T):
                torch.mul(X, root[:, None], out=U)
                for first, last in _panels(p, self.device):
                    total[c, first:last, first:p].add_(
                        _through(U[:, first:last], U[:, first:], rows)
                    )
                if self.intercept:
                    total[c, p, :p].add_(_through(root[:, None], U, rows)[0])
                    total[c, p, p].add_(root.to(torch.float64).square().sum())
        scratch.zero_()  # what is erased is to be in no copy
        return _mirrored(total, p)

    def _hessian_rows(self) -> int:
        if self.device.type == "cuda":
            return HESSIAN_ROWS
        return max(2048, HESSIAN_BYTES // (8 * max(1, self.p)))

    def _blocks_at_once(self, rows: int) -> int:
        """Of narrow rows a block is done before the next one is launched: a GPU takes several."""
        if self.device.type != "cuda":
            return 1
        return max(1, SCALED_BYTES // (4 * rows * max(1, self.p)))


def _panels(p: int, device: torch.device) -> list[tuple[int, int]]:
    """Columns in panels: of each one's products, those with earlier panels are left out."""
    if p < PANELS_FROM or device.type != "cuda":
        return [(0, p)]
    half = -(-p // (2 * _ALIGNED)) * _ALIGNED
    return [(0, half), (half, p)]


def _through(A: torch.Tensor, B: torch.Tensor, rows: int) -> torch.Tensor:
    """A^T B, summed in the precision of A and B inside blocks of rows and in float64 across."""
    if len(A) <= rows:
        return A.T @ B
    whole = len(A) // rows
    parts = (
        A[: whole * rows].unflatten(0, (whole, rows)),
        B[: whole * rows].unflatten(0, (whole, rows)),
    )
    total = (parts[0].mT @ parts[1]).sum(dim=0, dtype=torch.float64)
    return total + A[whole * rows :].T @ B[whole * rows :]


def _mirrored(total: torch.Tensor, p: int) -> torch.Tensor:
    """Symmetric: the upper half of the columns, the last row for the intercept."""
    upper = torch.triu(total[:, :p, :p])
    total[:, :p, :p] = upper + torch.triu(upper, 1).mT
    if total.shape[1] > p:
        total[:, :p, p] = total[:, p, :p]
    return total


@contextmanager
def matmul_precision(device: torch.device, rough: bool) -> Iterator[None]:
    """float32 products as float32's on a GPU or, if rough, by tensor cores that round to TF32."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if rough else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
