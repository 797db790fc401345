"""The log: lines of JSON on standard error. No line holds the id of a person: routes are logged by
their pattern, tokens by their public half."""

import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any, TextIO

from pydantic_core import to_json


class Log:
    """every: seconds for which lines may be held back, so that nobody who asks waits for a disk."""

    def __init__(self, stream: TextIO | None = None, every: float = 0.0) -> None:
        self._stream = stream or sys.stderr
        self._held: list[str] = []
        self._end = threading.Event()
        self._writer: threading.Thread | None = None
        if every > 0:
            self._writer = threading.Thread(target=self._write_on, args=(every,), daemon=True)
            self._writer.start()

    def line(self, event: str, **facts: Any) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        text = to_json({"at": now, "event": event, **facts}, fallback=str).decode()
        self._held.append(text)
        if self._writer is None:
            self._write()

    def close(self) -> None:
        self._end.set()
        if self._writer is not None:
            self._writer.join()
        self._write()

    def _write_on(self, every: float) -> None:
        while not self._end.wait(every):
            self._write()

    def _write(self) -> None:
        lines, self._held = self._held, []
        if not lines:
            return
        try:
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads it any more; the service goes on
            pass
