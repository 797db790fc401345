"""Processes that end with their parent, however it ends: they hold the other end of its pipe.

And which cores they may use: those that compute leave one to those that answer.
"""

import os
import signal
import threading

LIFELINE = "UNFIT_LIFELINE"  # a file descriptor that ends when the parent does


def lifeline(stop: threading.Event | None = None) -> None:
    """Stop on a signal, and when the parent is gone."""
    if stop is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    handle = os.environ.get(LIFELINE)
    if handle is not None:
        threading.Thread(target=_watch, args=(int(handle),), daemon=True).start()


def _watch(handle: int) -> None:
    try:
        while os.read(handle, 1024):
            pass
    finally:
        os._exit(1)


def share() -> set[int]:
    """The cores for computing: all but one, where there are several."""
    if not hasattr(os, "sched_getaffinity"):
        return set()
    mine = os.sched_getaffinity(0)
    return mine - {min(mine)} or mine


def blas_threads(count: int) -> dict[str, str]:
    """For the environment of a process; read when NumPy is loaded."""
    return dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(max(1, count)))
