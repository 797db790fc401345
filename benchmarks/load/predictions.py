"""Predictions: at a fixed rate whatever happens, or as fast as the connections carry them."""

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import numpy as np

from .http_client import RECONNECT_SECONDS, Address, Connection, connect

TICK_SECONDS = 0.002


class PredictionLoad:
    """Asks over several connections and records each answer: when due, sent, done, by whom.

    With a rate, requests fall due by the clock and wait for a free connection, so that a slow
    answer shows in the times of those behind it. Without one, a connection asks again once it is
    answered.
    What falls due while no connection is up, or still waits at the end, is counted as unsent.
    """

    def __init__(self, address: Address, bodies: Sequence[bytes], rate: float) -> None:
        self._address, self._rate = address, rate
        made = [address.request("POST", "/v1/predictions", body) for body in bodies]
        self._requests = cycle(made)
        self._free: deque[Connection] = deque()
        self._late: deque[float] = deque()
        self._busy: dict[Connection, tuple[float, float]] = {}
        self._due, self._sent, self._done = array("d"), array("d"), array("d")
        self._status, self._version = array("l"), array("l")
        self._mending: set[asyncio.Task[None]] = set()
        self._asking = False
        self.cut = self.unsent = 0

    async def run(self, connections: int, stop: asyncio.Event) -> None:
        self._asking = True
        await asyncio.gather(*(self._open() for _ in range(connections)))
        started, asked = time.monotonic(), 0
        while not stop.is_set():
            if self._rate:
                due = int((time.monotonic() - started) * self._rate)
                for k in range(asked, due):
                    self._fall_due(started + k / self._rate)
                asked = due
            await asyncio.sleep(TICK_SECONDS if self._rate else 0.05)
        self._asking = False
        self.unsent += len(self._late)
        self._late.clear()
        until = time.monotonic() + 5.0
        while self._busy and time.monotonic() < until:
            await asyncio.sleep(0.01)
        for connection in [*self._free, *self._busy]:
            connection.close()

    def save(self, path: Path) -> None:
        np.savez(
            path,
            due=np.array(self._due),
            sent=np.array(self._sent),
            done=np.array(self._done),
            status=np.array(self._status),
            version=np.array(self._version),
        )

    def _fall_due(self, due: float) -> None:
        if self._free:
            self._ask(self._free.popleft(), due)
        elif self._busy:
            self._late.append(due)
        else:
            self.unsent += 1

    def _ask(self, connection: Connection, due: float) -> None:
        self._busy[connection] = (due, time.monotonic())
        connection.send(next(self._requests))

    def _next(self, connection: Connection) -> None:
        """A connection is free."""
        if self._late:
            self._ask(connection, self._late.popleft())
        elif self._asking and not self._rate:
            self._ask(connection, time.monotonic())
        else:
            self._free.append(connection)

    def _answered(self, connection: Connection, status: int, body: bytes) -> None:
        due, sent = self._busy.pop(connection)
        self._due.append(due)
        self._sent.append(sent)
        self._done.append(time.monotonic())
        self._status.append(status)
        self._version.append(_version(body) if status == 200 else 0)
        self._next(connection)

    def _lost(self, connection: Connection) -> None:
        if self._busy.pop(connection, None) is not None:
            self.cut += 1
        elif connection in self._free:
            self._free.remove(connection)
        if not self._free and not self._busy:
            self.unsent += len(self._late)
            self._late.clear()
        if self._asking:
            task = asyncio.create_task(self._open(RECONNECT_SECONDS))
            self._mending.add(task)
            task.add_done_callback(self._mending.discard)

    async def _open(self, after: float = 0.0) -> None:
        await asyncio.sleep(after)
        self._next(await connect(self._address, self._answered, self._lost))


def _version(body: bytes) -> int:
    """The version that answered; 0 for the constant app, which has none."""
    at = body.find(b'"version":')
    return int(body[at + 10 : body.find(b",", at)]) if at >= 0 else 0
