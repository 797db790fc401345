"""Threads that meet between steps: what the SGD and DELTAGRAD kernels run on.

A kernel is a nogil numba function that every thread enters once and that meets the others
at a spin barrier after each step. A parallel region per step would cost more than a step
of short rows does. Knows nothing of ours.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from unfit.core.kernels.atomics import (
    CACHE_LINE,
    add_and_get,
    read,
    yield_core,
    zeros_on_lines,
)
from unfit.core.kernels.helpers import close
from unfit.core.kernels.workers import Task, borrowed, cores_beside_caller

FASTMATH = {
    "reassoc",
    "contract",
    "arcp",
    "nsz",
}  # sums may be reordered; NaN and infinity stay visible
KERNEL = {"nogil": True, "cache": True, "fastmath": FASTMATH, "error_model": "numpy"}
SHORT = 512  # columns up to which one core is enough for BLAS
_PARTS = 4  # of shared work, for each thread
VECTOR = 32  # bytes of a vector register; rows are laid out in whole ones


_limits = threading.local()


@contextmanager
def limited_threads(most: int) -> Iterator[None]:
    """Within this context, the calling thread starts kernels on so many cores at most."""
    before = getattr(_limits, "most", None)
    _limits.most = most
    try:
        yield
    finally:
        _limits.most = before


def available_threads() -> int:
    """Cores this process may use; one where the barrier cannot yield to the scheduler."""
    limit: int | None = getattr(_limits, "most", None)
    if limit is not None:
        return limit
    if sys.platform == "win32":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, 16))


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_for(d: int) -> Iterator[None]:
    """Within this context, BLAS works on one core if there are but d columns: after a short product
    its other threads spin for milliseconds, where our threads or another process should be."""
    if d > SHORT:
        yield
        return
    with blas_on_one_core():
        yield


@contextmanager
def blas_on_one_core() -> Iterator[None]:
    with _blas().limit(limits=1):
        yield


def run_threads(
    body: Callable[[int], None],
    threads: int,
    meeting: np.ndarray | None = None,
    alone: Callable[[], None] | None = None,
) -> None:
    """Run body(0) .. body(threads - 1) at the same time, body(0) in the calling thread.

    A thread may find its core taken, for milliseconds. Where threads do not meet, the caller does
    in the end what nobody has begun. Where they do, `alone`, which does all of it in one thread,
    runs instead of body if somebody does not begin before long; without it, the others wait.

    A thread that fails (Ctrl-C may strike before the kernel starts) opens the barrier for good, so
    that the others run out instead of waiting for it; the failure is raised once all are done.
    """
    if threads == 1:  # nobody waits for it
        body(0)
        return
    failures: list[BaseException] = []

    def guarded(thread: int) -> None:
        try:
            body(thread)
        except BaseException as failure:
            failures.append(failure)
            if meeting is not None:
                meeting[0] = 1 << 62

    cores = cores_beside_caller(threads)
    running: list[Task] = []
    whole = late = False
    try:
        for thread in range(1, threads):
            running.append(borrowed().begin(partial(guarded, thread), cores))
        late = alone is not None and not all(task.begins() for task in running)
        if not late:
            guarded(0)
        whole = True
    finally:
        if meeting is not None and (late or not whole):  # Ctrl-C struck before the kernel, perhaps
            meeting[0] = 1 << 62
        for thread, task in enumerate(running, 1):
            if (meeting is None or late or not whole) and task.take_back():
                if whole and not late:
                    guarded(thread)
            else:
                task.wait()
    if failures:
        raise failures[0]
    if late and alone is not None:
        alone()


def run_with_helpers(
    lead: Callable[[], None], help_out: Callable[[], None], threads: int, board: np.ndarray
) -> None:
    """Run lead() here, and help_out() in the other threads until the board is closed: see
    kernels.helpers. Nobody waits for a thread that does not begin, and help must not raise."""
    if threads == 1:
        lead()
        return
    cores = cores_beside_caller(threads)
    called: list[Task] = []
    try:
        for _ in range(1, threads):
            called.append(borrowed().begin(help_out, cores))
        lead()
    finally:
        close(board)
        for task in called:
            task.take_back()


def threads_and_parts(work: int, worth_a_thread: int) -> tuple[int, int]:
    """How many threads so much work is worth, and how many parts for `run_parts`."""
    worth = 1 + work // worth_a_thread
    if worth == 1:  # to ask how many threads there are would take longer than little work does
        return 1, 1
    threads = min(available_threads(), worth)
    return threads, 1 if threads == 1 else min(_PARTS * threads, worth)


def run_parts(body: Callable[[int], None], parts: int, threads: int) -> None:
    """Run body(0) .. body(parts - 1), each thread taking the next part that is left: one whose core
    is busy with something else (threads of BLAS spin for milliseconds after a product) leaves the
    rest to the others. Sums kept by part do not depend on who took it."""
    left = iter(range(parts))

    def take(_: int) -> None:
        for part in left:
            body(part)

    run_threads(take, threads)


def new_meeting() -> np.ndarray:
    """A fresh barrier counter, alone on its cache line."""
    return zeros_on_lines((CACHE_LINE // 8,), np.int64)


@intrinsic
def prefetch(typingctx, array, index):
    """Ask for the cache line of array[index] (flat) without waiting for it."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte_pointer, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, i32, i32, i32])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(data, [args[1]]), byte_pointer)
        builder.call(hint, [address, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@njit(nogil=True, cache=True)
def meet(counter: np.ndarray, target: int) -> None:
    """Wait until `target` arrivals were counted in all; spins first, then yields the core."""
    add_and_get(counter)
    spins = 0
    while read(counter) < target:
        spins += 1
        if spins > 4096:
            yield_core()
