"""DELTAGRAD's replay of a stored SGD run without some of its rows, fused.

An exact step computes the batch's gradients; an approximate step corrects the stored gradient by
the compact L-BFGS product and takes off the deleted rows, so that it touches only those rows and
a handful of vectors. Reads one trajectory and writes another. Knows core.sgd and core.kernels.
"""

from dataclasses import dataclass

import numpy as np

from unfit.core.kernels.atomics import zeros_on_lines
from unfit.core.kernels.lbfgs import MEMORY
from unfit.core.kernels.parallel import available_threads, new_meeting, run_threads
from unfit.core.kernels.replay import (
    CURVATURE_FLOOR,
    GONE,
    LEAVING,
    PRESENT,
    Deletion,
    Memory,
    replay_kernel,
)
from unfit.core.objective import positive_codes
from unfit.core.sgd import Layout, Plan, epoch_spans
from unfit.progress import ProgressCallback

__all__ = ["CURVATURE_FLOOR", "GONE", "LEAVING", "PRESENT", "Cadence", "replay"]

# A pair (s, y) is kept only if |s| > this |w|: less is rounding, not curvature.
RESOLUTION = {"float32": 1e-6, "float64": 1e-10}
_WORTH_A_THREAD = 1 << 14  # numbers in a step's deleted rows that pay for meeting at a barrier
_DENSE = 4  # with more than one row in so many leaving, looking at every row of a batch is cheaper


@dataclass(frozen=True)
class Cadence:
    """Which steps are exact: t <= burn_in, then every period-th."""

    burn_in: int
    period: int


def replay(
    layout: Layout,
    plan: Plan,
    cadence: Cadence,
    fate: np.ndarray,
    counts: np.ndarray,
    *,
    old: np.ndarray,
    new: np.ndarray,
    radius: float = np.inf,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (k, d) after the replay without the LEAVING slots, and the new batch counts.

    fate: (n,) uint8 of PRESENT, GONE or LEAVING; counts: (steps,) rows of each batch now;
    old, new: (steps, 2, k, d) trajectories read and written, never the same array.
    radius: no mean gradient is longer: it is the length of the longest row times the largest slope
    of the loss. An approximate step that says otherwise has lost its way: it is computed exactly
    instead, and the pairs that misled it are dropped.
    """
    k, d = old.shape[2], old.shape[3]
    width = layout.X.shape[1]
    deletion = _deletion(layout, fate)
    m = deletion[1].size  # the slots that leave
    steps = plan.steps_per_epoch(layout.n)
    if threads is None:
        busy = m * width * k > _WORTH_A_THREAD * steps
        threads = available_threads() if busy else 1
    team = threads
    weights = zeros_on_lines((team, k, width))
    weights[:, :, :d] = old[0, 0]
    memories = [_no_pairs(k, width) for _ in range(team)]
    new_counts = np.empty_like(counts)
    # Not as memory maps, whose type numba is slow to tell inside a tuple.
    trajectories = (np.asarray(old), np.asarray(new), counts, new_counts)
    parts, found = zeros_on_lines((2, k, 2, team, width)), np.zeros((2, team), np.int64)
    buckets = (np.empty(m, np.int64), np.empty(steps + 1, np.int64), np.empty(m, np.int32))
    positive, no_linear_term = positive_codes(k), np.zeros((k, width))
    resolution = RESOLUTION[layout.X.dtype.name]
    work = (m + layout.n // cadence.period + 16 * steps) * k * width
    for first, last in epoch_spans(plan.epochs, work):
        meeting = new_meeting()

        def body(
            thread: int, first: int = first, last: int = last, meeting: np.ndarray = meeting
        ) -> None:
            replay_kernel(
                layout.rows,
                deletion,
                layout.loss.compiled,
                (positive, no_linear_term, weights[thread]),
                layout.steps(plan, first, last),
                plan.learning_rate,
                plan.l2,
                (cadence.burn_in, cadence.period, resolution, float(radius)),
                memories[thread],
                trajectories,
                buckets,
                (meeting, parts, found, thread, team),
            )

        run_threads(body, team, meeting)
        if progress is not None:
            progress("training", last, plan.epochs)
    return np.ascontiguousarray(weights[0, :, :d]), new_counts


def _deletion(layout: Layout, fate: np.ndarray) -> Deletion:
    slots = np.flatnonzero(fate == LEAVING)
    place = np.zeros(layout.n, np.int32)
    place[slots] = np.arange(slots.size)
    rows = layout.X[slots], layout.codes[slots]
    return rows, slots, place, fate, slots.size * _DENSE > layout.n


def _no_pairs(k: int, width: int) -> Memory:
    """Every thread has a memory of its own: all walk the same path."""
    shape = (k, MEMORY, width)
    middle = np.zeros((k, 2 * MEMORY, 2 * MEMORY))
    return np.zeros(shape), np.zeros(shape), np.zeros(k, np.int64), np.zeros(k), middle
