"""The log: lines of JSON on standard error. No line holds the id of a person: routes are logged by
their pattern, tokens by their public half."""

import logging
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any, TextIO

from pydantic_core import to_json


class _Lines(logging.Handler):
    """Records of Python's logging as lines of the log."""

    def __init__(self, log: "Log") -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        facts = {
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:500],
        }
        if record.exc_info and record.exc_info[1] is not None:
            facts["failure"] = failed_in(record.exc_info[1])
        self._log.line("log", **facts)


def failed_in(error: BaseException) -> str:
    """An error's kind and place. Its text, which may hold anything, stays out of the log."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    code = trace.tb_frame.f_code
    where = f"{code.co_name} ({code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno})"
    return f"{type(error).__name__} in {where}"


def take_all(log: "Log") -> None:
    """From now on everything this process has to say is a line of this log: logging, warnings, and
    errors that nobody caught."""
    root = logging.getLogger()
    root.handlers = [_Lines(log)]
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "unfit"):
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True
    logging.captureWarnings(True)

    def crashed(error: BaseException | None, where: str) -> None:
        if error is not None and not isinstance(error, SystemExit):
            log.line("crashed", where=where, failure=failed_in(error))

    def main_thread(kind: type[BaseException], error: BaseException, _: object) -> None:
        crashed(error, "main thread")
        log.flush()

    sys.excepthook = main_thread
    threading.excepthook = lambda a: crashed(a.exc_value, a.thread.name if a.thread else "thread")
    sys.unraisablehook = lambda a: crashed(a.exc_value, "finalizer")


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

    def flush(self) -> None:
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
