"""HTTP/1.1 over kept-alive connections, with as little work for each request as Python allows."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

RECONNECT_SECONDS = 0.05
PATIENCE_SECONDS = 30.0  # for one answer to an errand

Answered = Callable[["Connection", int, bytes], None]
Lost = Callable[["Connection"], None]


@dataclass(frozen=True)
class Address:
    host: str
    port: int
    token: str

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> bytes:
        """A request as it goes over the wire."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"host: {self.host}:{self.port}",
            f"authorization: Bearer {self.token}",
            f"content-length: {len(body)}",
            "content-type: application/json",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time; tells when it is answered, or cut."""

    def __init__(self, answered: Answered, lost: Lost) -> None:
        self._answered, self._lost = answered, lost
        self._transport: asyncio.WriteTransport | None = None
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._got:
            data = self._got + data
        end = data.find(b"\r\n\r\n") + 4
        if end > 3:
            whole = end + _length(data[:end])
            if len(data) >= whole:
                self._got = b""
                self._answered(self, int(data[9:12]), data[end:whole])
                return
        self._got = data

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _length(head: bytes) -> int:
    at = head.find(b"content-length: ")
    return int(head[at + 16 : head.find(b"\r", at)]) if at >= 0 else 0


async def connect(address: Address, answered: Answered, lost: Lost) -> Connection:
    """A connection, retried until somebody listens."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(answered, lost), address.host, address.port
            )
            return connection
        except OSError:
            await asyncio.sleep(RECONNECT_SECONDS)


class Client:
    """Occasional requests on one connection, one after the other; None means no answer."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Connection | None = None
        self._waiting: asyncio.Future[tuple[int, bytes] | None] | None = None
        self._turn = asyncio.Lock()

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any] | None:
        content = b"" if body is None else json.dumps(body).encode()
        request = self._address.request(method, path, content, headers)
        async with self._turn:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    if self._connection is None:
                        self._connection = await connect(self._address, self._answered, self._lost)
                    self._waiting = asyncio.get_running_loop().create_future()
                    self._connection.send(request)
                    answer = await self._waiting
            except TimeoutError:
                answer = None
            if answer is None:
                self.close()
                return None
        status, text = answer
        return status, json.loads(text) if text else None

    def close(self) -> None:
        connection, self._connection, self._waiting = self._connection, None, None
        if connection is not None:
            connection.close()

    def _answered(self, _: Connection, status: int, body: bytes) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((status, body))

    def _lost(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connection = None
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)
