"""Is a worker at its place? Looked at once a second, so that the answer is never old."""

import asyncio
import threading
import time
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

from unfit.errors import UnfitError
from unfit.store.leases import LEASE_SECONDS
from unfit.store.store import Store
from unfit.workspace.holder import Holder

LOOK_SECONDS = 1.0


class Heartbeat:
    """The beat of the worker that holds the lease."""

    def __init__(self, store: Store) -> None:
        self._lease = store.lease("")
        self._mutex = threading.Lock()
        self._seen: tuple[str | None, int] = (None, 0)
        self._moved_at = 0.0

    async def watch(self) -> None:
        """Look for as long as the process answers."""
        while True:
            with suppress(UnfitError):
                await run_in_threadpool(self.lives)
            await asyncio.sleep(LOOK_SECONDS)

    def lives(self) -> bool:
        """Whether somebody holds the lease who was seen to move within its time, and is not known
        to be gone or stopped."""
        found, now = self._lease.read(), time.monotonic()
        with self._mutex:
            if found != self._seen:
                self._seen, self._moved_at = found, now
            moved_at = self._moved_at
        holder = Holder.named(found[0])
        if found[0] is None or (holder is not None and (holder.is_gone or holder.is_stopped)):
            return False
        return now - moved_at <= LEASE_SECONDS
