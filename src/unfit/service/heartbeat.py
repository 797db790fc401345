"""Is a worker running? Checked every second, so that the answer is never old."""

import asyncio
import threading
import time
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

from unfit.errors import UnfitError
from unfit.holder import Holder
from unfit.store.leases import LEASE_SECONDS
from unfit.store.store import Store

CHECK_SECONDS = 1.0


class Heartbeat:
    """The heartbeat of the worker that holds the lease."""

    def __init__(self, store: Store) -> None:
        self._lease = store.lease("")
        self._mutex = threading.Lock()
        self._seen: tuple[str | None, int] = (None, 0)
        self._renewed_at = 0.0

    async def watch(self) -> None:
        """Check as long as this process runs."""
        while True:
            with suppress(UnfitError):
                await run_in_threadpool(self.is_alive)
            await asyncio.sleep(CHECK_SECONDS)

    def is_alive(self) -> bool:
        """Whether the holder of the lease renewed it in time and is not known to be gone or
        stopped."""
        found, now = self._lease.read(), time.monotonic()
        with self._mutex:
            if found != self._seen:
                self._seen, self._renewed_at = found, now
            renewed_at = self._renewed_at
        holder = Holder.named(found[0])
        if found[0] is None or (holder is not None and (holder.is_gone or holder.is_stopped)):
            return False
        return now - renewed_at <= LEASE_SECONDS
