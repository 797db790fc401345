"""The log: lines of JSON on standard error. No line holds the id of a person: routes are logged by
their pattern, tokens by their public half."""

import sys
import time
from datetime import UTC, datetime
from typing import Any, TextIO

from pydantic_core import to_json


class Log:
    """Lines of JSON; buffered for a moment, never between processes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def line(self, event: str, **facts: Any) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        text = to_json({"at": now, "event": event, **facts}, fallback=str).decode()
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads it any more; the service goes on
            pass
