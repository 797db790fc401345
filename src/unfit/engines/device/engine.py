"""The engine of a GPU: rows on the device, sums there, and only vectors across the bus.

Keeps a reference to the caller's array, of which it takes the rows of a request, and a copy of it
on the device (rows.py). Without a GPU the same code runs on the CPU. May know core.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch

from unfit.core import replay, sgd
from unfit.core.conjugate_gradients import Guide, Offer
from unfit.core.factors import Factor
from unfit.core.objective import Products, Rows
from unfit.core.penalty import Ridge
from unfit.core.sgd import Layout, Plan
from unfit.core.statistics import Statistics
from unfit.engines.base import Engine, MakeEngine
from unfit.engines.device.factors import DeviceCholesky, DeviceInverse
from unfit.engines.device.memory import (
    chosen_device,
    device_faults,
    row_budget,
    to_device,
    to_numpy,
)
from unfit.engines.device.rows import DeviceRows
from unfit.engines.device.sgd import DeviceLayout, SgdRun
from unfit.engines.device.sums import Evaluated, Sums
from unfit.errors import Unavailable
from unfit.progress import ProgressCallback

PRODUCTS_PER_GUIDE = 16  # passes that cost about what a rough Hessian with its factor does
_MATRICES = 6  # of d x d numbers of float64 for each problem, kept free beside the rows
_BESIDE = 1 << 30  # bytes kept free for blocks and vectors


@dataclass(frozen=True)
class Settings:
    """What a TorchEngine was told, for engines of its kind; see there."""

    device: str | None = None
    memory: int | str | None = None

    def __call__(self, rows: Rows, n_classes: int, /) -> "TorchEngine":
        return TorchEngine(rows, n_classes, device=self.device, memory=self.memory)

    def __reduce__(self) -> tuple[object, ...]:
        return _settings_here, (self.device, self.memory)


def _settings_here(device: str | None, memory: int | str | None) -> Settings:
    """Settings from a pickle, on a machine that may lack the device."""
    try:
        chosen_device(device)
    except Unavailable:
        device = None
    return Settings(device, memory)


class TorchEngine(Engine):
    """Rows X (n, p) of float32 or float64 with class codes (n,) in 0 .. n_classes - 1.

    device: "cuda", "cuda:1" or "cpu"; None is what UNFIT_TORCH_DEVICE says, else a GPU if there is
    one. memory: what rows may take of it, in bytes or as "40GB"; None is what UNFIT_DEVICE_MEMORY
    says, else most of what is free on a GPU. Rows beyond that are streamed in every pass.
    """

    name = "torch"
    takes_sample_weight = True

    def __init__(
        self,
        rows: Rows,
        n_classes: int,
        *,
        device: str | None = None,
        memory: int | str | None = None,
    ) -> None:
        super().__init__(rows, n_classes)
        self._settings = Settings(device=device, memory=memory)
        self.rows, self.device = rows, chosen_device(device)
        beside = _MATRICES * 8 * self.k * self.d**2 + _BESIDE
        budget = row_budget(self.device, memory, beside)
        with device_faults(self.device):
            self._place(DeviceRows(rows, self.device, budget))

    def _place(self, there: DeviceRows) -> None:
        self._there = there
        self._sums = Sums(there, self.codes, self.loss, k=self.k, intercept=self.intercept)
        weight = self.sample_weight
        self._sample_weight = None if weight is None else to_device(weight, self.device)
        self._layout: DeviceLayout | None = None  # the last one that was asked for
        self._masked: tuple[np.ndarray, torch.Tensor] | None = None  # a mask, and it as weights

    @property
    def made_by(self) -> str | MakeEngine:
        return self.name if self._settings == Settings() else self._settings

    def _like(self, rows: Rows, n_classes: int) -> Engine:
        own = type(self) is TorchEngine  # a class of a package may have settings of its own
        return self._settings(rows, n_classes) if own else super()._like(rows, n_classes)

    def shared(self) -> Self:
        other = super().shared()
        other._layout = None
        return other

    def copied(self) -> Self:
        other = self.shared()
        other.rows = self.rows.copied()
        other.codes, other.sample_weight = other.rows.codes, other.rows.sample_weight
        with device_faults(self.device):
            other._place(DeviceRows(other.rows, self.device, self._there.budget))
        return other

    def _left(self) -> Rows:
        rows = replace(self.rows, X=np.asarray(self.rows.X))
        return rows if self.remaining.all() else rows.take(self.remaining)

    def take(self, rows: np.ndarray) -> Rows:
        return self.rows.take(rows)

    def erase(self, rows: np.ndarray) -> None:
        super().erase(rows)
        places = np.asarray(rows, np.int64)
        self._there.erase(places)
        self._masked = None  # it has sample weights in it
        there = torch.as_tensor(places, device=self.device)
        self._sums.codes[there] = 0
        if self._sample_weight is not None:
            self._sample_weight[there] = 0
        self.drop_layout()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # blocks that held rows go back to the driver

    # --- sums ----------------------------------------------------------------------------------

    def value_gradient_sum(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        with device_faults(self.device):
            found = self._sums.evaluate(self._sent(W), self._weight(mask), keep=False)
            return _split(found)

    def value_gradient_products(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, Products]:
        with device_faults(self.device):
            found = self._sums.evaluate(self._sent(W), self._weight(mask), keep=True)
            values, gradients = _split(found)
        curvatures = found.curvatures
        assert curvatures is not None

        def products(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
            self.rows_read += len(self)  # those that have left too, with weight 0
            with device_faults(self.device):
                every = np.array_equal(problems, np.arange(self.k))
                chosen = curvatures if every else curvatures[problems.tolist()]
                return to_numpy(self._sums.products(chosen, to_device(V, self.device)))

        return values, gradients, products

    def hessian_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return to_numpy(self._hessians(W, mask))

    def gram_sum(self, mask: np.ndarray | None = None) -> np.ndarray:
        with device_faults(self.device):
            keep = self.remaining if mask is None else mask
            weight = None if keep.all() else to_device(keep, self.device).to(torch.float64)
            return to_numpy(self._sums.gram(weight))

    def factors(self, W: np.ndarray, mask: np.ndarray | None, ridge: Ridge) -> Sequence[Factor]:
        return self._factors(self._hessians(W, mask), ridge)

    def with_factors(self, known: Statistics, roots: bool) -> Statistics:
        if known.wants_spectra(roots):
            return known.with_factors(roots)
        inverses = [
            DeviceInverse.on(h, self.device, *known.ridge_of_one) for h in known.hessian_sum
        ]
        return replace(known, factors=inverses)

    def offer(self, mask: np.ndarray | None, ridge: Ridge) -> Offer | None:
        """The Hessians of all rows by tensor cores, rounded: a better guide than a sample."""

        def make(W: np.ndarray) -> Guide:
            return self._factors(self._hessians(W, mask, rough=True), ridge)

        return Offer(make=make, products=PRODUCTS_PER_GUIDE)

    def _hessians(
        self, W: np.ndarray, mask: np.ndarray | None, *, rough: bool = False
    ) -> torch.Tensor:
        with device_faults(self.device):
            precise = self.precise and not rough
            weight = self._weight(mask)
            return self._sums.hessians(self._sent(W), weight, precise=precise, rough=rough)

    def _factors(self, hessians: torch.Tensor, ridge: Ridge) -> Sequence[Factor]:
        added = torch.as_tensor(ridge, dtype=torch.float64, device=self.device)
        hessians.diagonal(dim1=-2, dim2=-1).add_(added)
        return DeviceCholesky.of_all(hessians)

    def _sent(self, W: np.ndarray) -> torch.Tensor:
        return to_device(np.asarray(W, np.float64), self.device)

    def _weight(self, mask: np.ndarray | None) -> torch.Tensor | None:
        """What multiplies each row in a pass, which is counted: 0 for those left out."""
        keep = self.remaining if mask is None else mask
        kept = int(np.count_nonzero(keep))
        self.rows_read += kept
        if kept == len(keep):
            return self._sample_weight
        if self._masked is None or not np.array_equal(self._masked[0], keep):
            weight = to_device(keep, self.device).to(torch.float64)
            if self._sample_weight is not None:
                weight = weight * self._sample_weight
            self._masked = keep.copy(), weight
        return self._masked[1]

    # --- mini-batches --------------------------------------------------------------------------

    def lay_out(self, row_of: np.ndarray) -> Layout:
        if self._layout is None or self._layout.row_of is not row_of:
            self._layout = DeviceLayout(self.rows, row_of)
        return self._layout

    def drop_layout(self) -> None:
        self._layout = None

    def sgd(
        self,
        layout: Layout,
        plan: Plan,
        start: np.ndarray,
        *,
        linear_term: np.ndarray | None = None,
        trajectory: np.ndarray | None = None,
        progress: ProgressCallback | None = None,
    ) -> np.ndarray:
        """On the device; on the host's cores where not all rows stay there."""
        if self._there.streams or not isinstance(layout, DeviceLayout):
            return sgd.train_sgd(
                layout,
                plan,
                start,
                linear_term=linear_term,
                trajectory=trajectory,
                progress=progress,
            )
        with device_faults(self.device):
            keep = trajectory is not None
            run = SgdRun(self._sums, layout, plan, start, linear_term, keep)
            return run.train(trajectory, progress)

    replay = staticmethod(replay.replay)


def _split(found: Evaluated) -> tuple[np.ndarray, np.ndarray]:
    """Values (k,) and gradients (k, d), by one transfer."""
    both = to_numpy(found.both)
    return both[:, -1].copy(), np.ascontiguousarray(both[:, :-1])
