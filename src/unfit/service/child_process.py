"""Child processes that end with their parent, however it ends, because they hold the other end of a
pipe. Through a second pipe they send a heartbeat every second, so that one that hangs is noticed.

Also which cores they may use: processes that compute leave one core to those that answer.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from unfit.holder import work_done

LIFELINE = "UNFIT_LIFELINE"  # a file descriptor that ends when the parent does
BEATS = "UNFIT_BEATS"  # a file descriptor for heartbeats
BEAT_SECONDS = 1.0
HUNG_SECONDS = 10.0  # without a beat and without any work done
START_SECONDS = 30.0  # the same, before the first beat


def lifeline(stop: threading.Event | None = None) -> None:
    """Stop on a signal or when the parent is gone; send heartbeats until then."""
    if stop is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    handle, beats = os.environ.get(LIFELINE), os.environ.get(BEATS)
    if handle is not None:
        threading.Thread(target=_watch, args=(int(handle),), daemon=True).start()
    if beats is not None:
        threading.Thread(target=_beat, args=(int(beats),), daemon=True).start()


def _watch(handle: int) -> None:
    try:
        while os.read(handle, 1024):
            pass
    finally:
        os._exit(1)


def _beat(handle: int) -> None:
    os.set_blocking(handle, False)
    while True:
        with suppress(OSError):  # the pipe is full: the parent itself is stopped
            os.write(handle, b".")
        time.sleep(BEAT_SECONDS)


class Child:
    """A child process as its parent sees it."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] = os.environ,
        *,
        handles: Sequence[int] = (),
        process_group: int | None = None,
    ) -> None:
        self._beats, writing = os.pipe()
        os.set_blocking(self._beats, False)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                pass_fds=(*handles, writing),
                env={**environment, LIFELINE: "0", BEATS: str(writing)},
                process_group=process_group,
            )
        except BaseException:
            os.close(self._beats)
            raise
        finally:
            os.close(writing)
        self.started = self._since = time.monotonic()
        self._count, self._seen = 0, (-1, work_done(self.process.pid))

    def hangs(self) -> bool:
        """Whether it has sent no heartbeat and done no work for long: it was stopped, or waits for
        a disk forever. To be called repeatedly."""
        with suppress(BlockingIOError):
            self._count += len(os.read(self._beats, 65536))
        now, seen = time.monotonic(), (self._count, work_done(self.process.pid))
        if seen != self._seen:
            self._since, self._seen = now, seen
        return now - self._since > (HUNG_SECONDS if self._count else START_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Release its pipes after it has ended."""
        os.close(self._beats)
        if self.process.stdin is not None:
            self.process.stdin.close()


def compute_cores() -> set[int]:
    """The cores for computing: all but one, if there are several."""
    if not hasattr(os, "sched_getaffinity"):
        return set()
    mine = os.sched_getaffinity(0)
    return mine - {min(mine)} or mine


def blas_threads(count: int) -> dict[str, str]:
    """Environment variables that NumPy reads when it is loaded."""
    return dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(max(1, count)))
