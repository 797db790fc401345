"""HTTP connections with limits: headers arrive soon and are short, and clients keep reading."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
HEADER_BYTES = 64 * 1024
STALL_SECONDS = 60.0  # without the client reading any of the answer


class TimeLimitedProtocol(HttpToolsProtocol):
    _alarm: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _in_headers = True
    _header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._set_alarm()

    def data_received(self, data: bytes) -> None:
        if self._in_headers:
            self._header_bytes += len(data)
            self._set_alarm()
        super().data_received(data)
        if self._in_headers and self._header_bytes > HEADER_BYTES:
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._in_headers, self._header_bytes = False, 0
        self._stop_alarm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_headers = True
        self._stop_alarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if (
            not self._in_headers
        ):  # answered before the whole body arrived: the rest has to come soon
            self._set_alarm()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_alarm()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def _set_alarm(self) -> None:
        if self._alarm is None:
            self._alarm = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
