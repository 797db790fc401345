"""Mini-batch SGD on a laid-out copy of the rows, as one fused kernel.

    w <- w - eta ( mean over the batch of slope(x.w, t) x  +  lam w  +  linear_term )

`linear_term` is sigma b / |D| for INFLUENCE and zero elsewhere. Rows are in the data's precision,
the sum over at most FLUSH rows too; beyond that, and for w itself, float64. k one-vs-rest problems
walk through the same batches. Knows core.objective and core.kernels.
"""

import math
from dataclasses import dataclass

import numpy as np

from unfit.core.kernels.atomics import zeros_on_lines
from unfit.core.kernels.parallel import available_threads, new_meeting, run_threads
from unfit.core.kernels.rows import PaddedRows
from unfit.core.kernels.schedule import window_rows
from unfit.core.kernels.sgd import Steps, sgd_kernel
from unfit.core.losses import LOGISTIC, Loss
from unfit.core.objective import positive_codes
from unfit.progress import ProgressCallback

WORTH_A_BARRIER = 1 << 13  # multiply-adds of a step: fewer are done before threads have met
WORK_PER_CALL = 2e9  # multiply-adds between two looks at Ctrl-C and the progress bar


@dataclass(frozen=True)
class Layout:
    """Rows in random order, padded to whole vectors, with the intercept's ones inside.

    X (n, width); codes (n,) class of each slot; row_of (n,) the caller's row in each slot;
    d columns of X are real, the rest zero; loss: of every row.
    """

    X: np.ndarray
    codes: np.ndarray
    row_of: np.ndarray
    d: int
    loss: Loss = LOGISTIC

    @property
    def rows(self) -> PaddedRows:
        """The rows as kernels take them."""
        return self.X, self.codes

    def steps(self, plan: "Plan", first_epoch: int, last_epoch: int) -> Steps:
        """Some epochs of a plan, as kernels take them."""
        return np.uint64(plan.seed), first_epoch, last_epoch, plan.batch_size, self.window

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def window(self) -> int:
        return window_rows(self.n, self.X.shape[1] * self.X.itemsize)

    def radius(self, slots: np.ndarray | None = None, known: float = math.inf) -> float:
        """A bound on the length of the rows, or of those in the given slots: a power of two.

        The length of the longest row would be one person's value; the power of two above it is
        many people's. known: a bound that holds, so that nobody looks on once it is reached.
        """
        step = max(1, (1 << 20) // self.X.shape[1])
        n = self.n if slots is None else len(slots)
        bound = 0.0
        for at in range(0, n, step):
            X = self.X[at : at + step] if slots is None else self.X[slots[at : at + step]]
            longest = math.sqrt(float(np.einsum("ij,ij->i", X, X).max()))
            bound = max(bound, power_of_two_above(1.001 * longest))
            if bound >= known:
                break
        return bound


def power_of_two_above(length: float) -> float:
    """The smallest power of two that is not below a length; 1 for none."""
    return 2.0 ** math.ceil(math.log2(length)) if length > 0 else 1.0


@dataclass(frozen=True)
class Plan:
    """What SGD does, apart from the data: all that is needed to run it again."""

    seed: int
    epochs: int
    batch_size: int
    learning_rate: float
    l2: float

    def steps_per_epoch(self, n: int) -> int:
        return -(-n // self.batch_size)

    def steps(self, n: int) -> int:
        return self.epochs * self.steps_per_epoch(n)


def train_sgd(
    layout: Layout,
    plan: Plan,
    start: np.ndarray,
    *,
    linear_term: np.ndarray | None = None,
    trajectory: np.ndarray | None = None,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> np.ndarray:
    """Weights (k, d) after plan.epochs from `start` (k, d).

    trajectory: (steps, 2, k, d) to be filled with w_t and the mean data gradient g_t, or None.
    """
    k, d = start.shape
    width = layout.X.shape[1]
    if threads is None:
        threads = min(available_threads(), 1 + plan.batch_size * k * width // WORTH_A_BARRIER)
    weights = zeros_on_lines((threads, k, width))
    weights[:, :, :d] = start
    positive, padded_term = positive_codes(k), np.zeros((k, width))
    if linear_term is not None:
        padded_term[:, :d] = linear_term
    stored = np.empty((0, 2, k, d)) if trajectory is None else trajectory
    parts = zeros_on_lines((2, k, threads, width))
    for first, last in epoch_spans(plan.epochs, layout.n * k * width):
        meeting = new_meeting()

        def body(
            thread: int, first: int = first, last: int = last, meeting: np.ndarray = meeting
        ) -> None:
            sgd_kernel(
                layout.rows,
                layout.loss.compiled,
                (positive, padded_term, weights[thread]),
                layout.steps(plan, first, last),
                plan.learning_rate,
                plan.l2,
                stored,
                (meeting, parts, thread, threads),
            )

        run_threads(body, threads, meeting)
        if progress is not None:
            progress("training", last, plan.epochs)
    return np.ascontiguousarray(weights[0, :, :d])


def epoch_spans(epochs: int, work_per_epoch: int) -> list[tuple[int, int]]:
    """Epochs in runs of about WORK_PER_CALL, so that a long training can be interrupted."""
    run = max(1, int(WORK_PER_CALL / max(1, work_per_epoch)))
    return [(first, min(first + run, epochs)) for first in range(0, epochs, run)]
