"""The change counter of the database, read for every request.

On SQLite that is a page in memory. On PostgreSQL, requests that arrive during one read share the
next one.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from unfit.errors import Unavailable
from unfit.store.change_counter import ChangeCounter, Counters

READ_SECONDS = 5.0


class SharedChangeCounter:
    """Reads the counters once for all requests that ask at the same time."""

    def __init__(self, counter: ChangeCounter) -> None:
        self._counter = counter
        self._thread = ThreadPoolExecutor(1, "change-counter")
        self._next: asyncio.Future[Counters] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def read(self) -> Counters:
        if self._counter.local:
            return self._counter.read()
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._reading is None:
                self._reading = asyncio.create_task(self._read_for_all())
        return await asyncio.shield(self._next)

    async def _read_for_all(self) -> None:
        while self._next is not None:
            waiting, self._next = self._next, None
            try:
                waiting.set_result(await self._from_postgres())
            except Exception as error:
                waiting.set_exception(error)
        self._reading = None

    async def _from_postgres(self) -> Counters:
        """A lost connection is opened again, once."""
        loop = asyncio.get_running_loop()
        for last in (False, True):
            try:
                if not self._counter.is_open:
                    await loop.run_in_executor(self._thread, self._counter.open)
                async with asyncio.timeout(READ_SECONDS):
                    return await self._receive(loop)
            except Exception as error:
                self._counter.close()
                if last:
                    reason = str(error).strip()[:200] or "no answer"
                    raise Unavailable(f"the database cannot be read: {reason}") from None
        raise AssertionError

    async def _receive(self, loop: asyncio.AbstractEventLoop) -> Counters:
        answer: asyncio.Future[Counters] = loop.create_future()

        def readable() -> None:
            try:
                found = self._counter.receive()
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
                return
            if found is not None and not answer.done():
                answer.set_result(found)

        handle = self._counter.send()
        loop.add_reader(handle, readable)
        try:
            return await answer
        finally:
            loop.remove_reader(handle)

    def close(self) -> None:
        self._thread.shutdown()
        self._counter.close()
