"""The engine "auto": a GPU or the CPU, by what training and ten requests would cost on each.

    pass      bytes of the rows / bandwidth; on a CPU at least 4 k n d / rate, on a GPU ANSWER more
    Hessian   k n d^2 / rate on a CPU, which computes one half; 2 k n d^2 / rate on a GPU
    SGD       epochs (a pass, or on a GPU STEP for each mini-batch if that is more)

Estimates, from sizes and from what is known of the machine; nothing is measured. Small rows stay in
a CPU's caches and are summed before a GPU has answered, so that the CPU is chosen for them.
"""

from dataclasses import dataclass
from importlib import import_module

from unfit.core.kernels.parallel import available_threads
from unfit.core.newton_cost import Sizes
from unfit.core.objective import Rows, problems
from unfit.core.sparse_rows import SparseRows
from unfit.errors import Unavailable

REQUESTS = 10  # that are expected after a training
ANSWER = 150e-6  # seconds between a call to a GPU and its sums
STEP = 8e-6  # of a mini-batch on a GPU
CORE_BANDWIDTH, CORE_RATE = 8e9, 40e9  # bytes and operations per second of one core
MOST_BANDWIDTH = 100e9  # of all of them
BUS = 10e9  # bytes per second to a GPU: the rows once, or in every pass if they do not fit
SHARE_OF_BANDWIDTH = 0.5  # of a GPU's memory that a pass reaches
_NEWTON_PASSES, _NEWTON_HESSIANS = 40, 6  # of a training


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is asked of an engine: epochs of SGD (0: Newton's method), in mini-batches of so many
    rows; then requests, each of so many passes over the rows."""

    epochs: int = 0
    batch_size: int | None = None
    passes: int = 8


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU: bytes that are free on it, and bytes and operations per second."""

    name: str
    free: int
    bandwidth: float
    rate: float


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The name of an engine, and why it was chosen, in a sentence."""

    engine: str
    reason: str


def chosen_for(rows: Rows, n_classes: int, task: Task) -> Choice:
    """What is faster for such rows on this machine."""
    if isinstance(rows, SparseRows):
        return Choice(engine="sparse", reason="The rows are sparse.")
    n, d = len(rows), rows.d
    sizes = Sizes(n=n, d=d, k=problems(n_classes), numbers=n * d, itemsize=rows.X.dtype.itemsize)
    return choose(sizes, task, _gpu_here(), available_threads())


def _gpu_here() -> Gpu | None:
    try:
        device = import_module("unfit.engines.device.memory")  # which imports PyTorch
    except Unavailable:
        return None
    found: Gpu | None = device.gpu_here()
    return found


def choose(sizes: Sizes, task: Task, gpu: Gpu | None, cores: int) -> Choice:
    """The engine that is estimated to be faster."""
    if gpu is None:
        return Choice(engine="cpu", reason="PyTorch finds no CUDA GPU here, or is not installed.")
    ours, theirs = on_gpu(sizes, task, gpu), on_cpu(sizes, task, cores)
    engine = "torch" if ours < theirs else "cpu"
    reason = (
        f"A training and {REQUESTS} requests on {sizes.n:,} x {sizes.d:,} rows are estimated to "
        f"take {_shown(theirs)} on {cores} CPU cores and {_shown(ours)} on {gpu.name}."
    )
    return Choice(engine=engine, reason=reason)


def on_cpu(sizes: Sizes, task: Task, cores: int) -> float:
    """Estimated seconds."""
    bandwidth = min(cores * CORE_BANDWIDTH, MOST_BANDWIDTH)
    reading = sizes.numbers * sizes.itemsize / bandwidth
    arithmetic = 4 * sizes.k * sizes.numbers / (cores * CORE_RATE)
    one_pass = max(reading, arithmetic)
    hessian = sizes.k * sizes.numbers * sizes.d / (cores * CORE_RATE)
    training = task.epochs * one_pass if task.epochs else _newton(sizes, one_pass, hessian)
    return training + REQUESTS * task.passes * one_pass


def on_gpu(sizes: Sizes, task: Task, gpu: Gpu) -> float:
    """Estimated seconds, with the way of the rows to the GPU."""
    there = sizes.numbers * sizes.itemsize
    streamed = there > gpu.free
    reading = there / (BUS if streamed else SHARE_OF_BANDWIDTH * gpu.bandwidth)
    one_pass = ANSWER + reading
    hessian = ANSWER + 2 * sizes.k * sizes.numbers * sizes.d / gpu.rate
    training = _newton(sizes, one_pass, hessian)
    if task.epochs:
        steps = -(-sizes.n // (task.batch_size or sizes.n))
        training = task.epochs * max(one_pass, steps * STEP)
    return there / BUS + training + REQUESTS * task.passes * one_pass


def _newton(sizes: Sizes, one_pass: float, hessian: float) -> float:
    if sizes.products_are_cheaper():
        return _NEWTON_PASSES * one_pass
    return _NEWTON_HESSIANS * (hessian + one_pass)


def _shown(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.2g} {unit}"
    return f"{seconds * 1e6:.2g} us"
