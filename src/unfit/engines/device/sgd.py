"""Mini-batch SGD on the device: the steps of core.sgd, in the same batches, in float64.

    w <- w - eta ( mean over the batch of slope(x.w, t) x  +  l2 w  +  linear_term )

Rows are not laid out: a batch is gathered from where they lie. On a GPU the launches of a whole
epoch are captured once as a CUDA graph over static buffers and replayed for every other epoch; a
step is two kernels where Triton is there. While an epoch runs the host works out the order of the
next one. DELTAGRAD's replay, which looks at few rows, runs on the host (core.replay).
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch

from unfit.core.kernels.schedule import epoch_order, window_rows
from unfit.core.objective import Rows
from unfit.core.sgd import Layout, Plan
from unfit.engines.cpu import lay_out, padded_width
from unfit.engines.device import fused
from unfit.engines.device.memory import to_device, to_numpy
from unfit.engines.device.sums import Sums
from unfit.progress import ProgressCallback

WORTH_A_GRAPH = 3  # epochs


class DeviceLayout(Layout):
    """The order of rows; their copy in that order is made on the host if somebody asks for it."""

    def __init__(self, rows: Rows, row_of: np.ndarray) -> None:
        self.__dict__.update(codes=rows.codes[row_of], row_of=row_of, d=rows.d, loss=rows.loss)
        self._rows = rows

    @cached_property
    def X(self) -> np.ndarray:  # noqa: N802  # a field of the class above
        return lay_out(self._rows, self.row_of).X

    @property
    def n(self) -> int:
        return len(self.row_of)

    @property
    def window(self) -> int:
        return window_rows(self.n, padded_width(self._rows) * self._rows.X.itemsize)

    def order(self, plan: Plan, epoch: int) -> np.ndarray:
        """The rows in the order in which an epoch visits them."""
        return np.asarray(self.row_of[epoch_order(self.n, self.window, plan.seed, epoch)])


class SgdRun:
    """One training: buffers that every step reads and writes where they are."""

    def __init__(
        self,
        sums: Sums,
        layout: DeviceLayout,
        plan: Plan,
        start: np.ndarray,
        linear_term: np.ndarray | None,
        keep: bool,
    ) -> None:
        self.sums, self.plan, self.layout, device = sums, plan, layout, sums.device
        self.steps = plan.steps_per_epoch(layout.n)
        self.W = to_device(np.asarray(start, np.float64), device)
        term = np.zeros(start.shape) if linear_term is None else linear_term
        self.linear_term = to_device(np.asarray(term, np.float64), device)
        self.rate = to_device(np.array([plan.learning_rate, plan.l2]), device)
        self.index = to_device(np.zeros(layout.n, layout.row_of.dtype), device)
        self.slopes = torch.empty((sums.k, plan.batch_size), dtype=torch.float64, device=device)
        shape = (self.steps if keep else 0, 2, *start.shape)
        self.kept = torch.empty(shape, dtype=torch.float64, device=device)
        self.fused = fused.walks(sums)

    def train(self, trajectory: np.ndarray | None, progress: ProgressCallback | None) -> np.ndarray:
        """Weights (k, d) after all epochs; trajectory: takes w_t and g_t of every step."""
        epochs, run = self.plan.epochs, self._epoch
        order = self.layout.order(self.plan, 0)
        for epoch in range(epochs):
            self.index.copy_(torch.from_numpy(order))
            if epoch == 1 and epochs >= WORTH_A_GRAPH and self._capturable:
                run = self._captured()
            run()
            if epoch + 1 < epochs:
                order = self.layout.order(self.plan, epoch + 1)
            if trajectory is not None:
                trajectory[epoch * self.steps : (epoch + 1) * self.steps] = to_numpy(self.kept)
            if progress is not None:
                self._wait()
                progress("training", epoch + 1, epochs)
        return to_numpy(self.W)

    @property
    def _capturable(self) -> bool:
        return self.sums.device.type == "cuda" and self.sums.on_device

    def _captured(self) -> Callable[[], None]:
        """The launches of an epoch as a graph. The first epoch has compiled and loaded all."""
        self._wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._epoch()
        return graph.replay  # type: ignore[no-any-return]  # PyTorch is not followed

    def _wait(self) -> None:
        if self.sums.device.type == "cuda":
            torch.cuda.synchronize(self.sums.device)

    def _epoch(self) -> None:
        n, batch = self.layout.n, self.plan.batch_size
        for step in range(self.steps):
            begin = step * batch
            if self.fused:
                fused.sgd_step(self, step, begin, min(batch, n - begin))
            else:
                self._step(step, begin, min(begin + batch, n))

    def _step(self, step: int, begin: int, end: int) -> None:
        chosen, W = self.index[begin:end], self.W
        X = self.sums.rows.X.index_select(0, chosen).to(torch.float64)
        slope = self.sums.slopes(X, self.sums.codes.index_select(0, chosen), W)
        mean = self.sums.through(slope, X) / (end - begin)
        if len(self.kept):
            self.kept[step, 0].copy_(W)
            self.kept[step, 1].copy_(mean)
        W.sub_(self.plan.learning_rate * (mean + self.plan.l2 * W + self.linear_term))
