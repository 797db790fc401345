"""The log of service, worker and library: one line of JSON per event, on standard error.

`LogOutput.install` sends everything there that a process has to say: Python's logging, warnings and
uncaught exceptions. No line contains the id of a person: routes are logged by their pattern, tokens
by their public half, and exceptions by their kind and place.
"""

import logging
import sys
import threading
import time
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from queue import Empty, SimpleQueue
from typing import Any, TextIO

from pydantic_core import to_json

MAX_MESSAGE = 500  # characters of what a library says
log = logging.getLogger("unfit.service")


_FIELDS = logging.makeLogRecord(
    {"levelno": logging.INFO, "levelname": "INFO", "args": (), "pathname": "", "filename": ""}
).__dict__


class EventRecord(logging.LogRecord):
    """An event with its facts.

    Every request makes one, so only what a line contains is set: `LogRecord` would also split the
    caller's path and look up thread and process, and `Logger.info` would search the stack for it.
    """

    def __init__(self, name: str, event: str, facts: dict[str, Any]) -> None:
        self.__dict__.update(_FIELDS)  # a handler of another library reads them from there
        self.name, self.msg, self.facts = name, event, facts
        self.created = time.time()


def log_event(logger: logging.Logger, event: str, **facts: Any) -> None:
    logger.handle(EventRecord(logger.name, event, facts))


def failed_in(error: BaseException) -> str:
    """An exception's kind and place. Its text, which may contain anything, stays out of the log."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    code = trace.tb_frame.f_code
    where = f"{code.co_name} ({code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno})"
    return f"{type(error).__name__} in {where}"


class JsonFormatter(logging.Formatter):
    """Events as they were logged; any other record as the event `log`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        if isinstance(record, EventRecord):
            content = {"at": at, "event": record.msg, **record.facts}
        else:
            content = {"at": at, "event": "log", **_describe(record)}
        return to_json(content, fallback=str).decode()


def _describe(record: logging.LogRecord) -> dict[str, str]:
    """What another library logged."""
    facts = {
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": _message(record)[:MAX_MESSAGE],
    }
    if record.exc_info and record.exc_info[1] is not None:
        facts["failure"] = failed_in(record.exc_info[1])
    return facts


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit the format must not end in a traceback here
        return str(record.msg)


class JsonLinesHandler(logging.Handler):
    """Lines of JSON on a stream, each at once or, if buffered, when it is flushed."""

    def __init__(self, stream: TextIO, *, buffered: bool = False) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self._stream, self._buffered = stream, buffered
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))
        if not self._buffered:
            self.flush()

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads the log any more; the service continues
            pass


class _RecordQueueHandler(QueueHandler):
    """Queues records as they are: the other end of the queue is a thread of this process."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record


class _BatchListener(QueueListener):
    """Writes what has been queued every so many seconds. A listener that wakes up for every record
    would take turns with the event loop."""

    def __init__(
        self, queue: SimpleQueue[logging.LogRecord], handler: JsonLinesHandler, seconds: float
    ) -> None:
        super().__init__(queue, handler)
        self._records, self._handler, self._seconds = queue, handler, seconds
        self._stopping = threading.Event()

    def dequeue(self, block: bool) -> logging.LogRecord:
        while True:
            try:
                return self._records.get_nowait()
            except Empty:
                self._handler.flush()
                self._stopping.wait(self._seconds)

    def handle(self, record: logging.LogRecord) -> None:
        self._handler.emit(record)  # without its lock: only this thread uses it

    def stop(self) -> None:
        self._stopping.set()
        super().stop()
        self._handler.flush()


class LogOutput:
    """The stream of the log.

    With `batch_seconds`, lines may be held back that long, so that no request waits for a disk.
    """

    def __init__(self, stream: TextIO | None = None, batch_seconds: float = 0.0) -> None:
        stream = stream or sys.stderr
        self._direct = JsonLinesHandler(stream)
        self.handler: logging.Handler = self._direct
        self._listener: _BatchListener | None = None
        if batch_seconds > 0:
            queue: SimpleQueue[logging.LogRecord] = SimpleQueue()
            self.handler = _RecordQueueHandler(queue)
            buffered = JsonLinesHandler(stream, buffered=True)
            self._listener = _BatchListener(queue, buffered, batch_seconds)
            self._listener.start()

    def install(self) -> None:
        """From now on everything this process has to say goes here."""
        logging.getLogger().handlers = [self.handler]
        for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "unfit", log.name):
            logging.getLogger(name).handlers = []
            logging.getLogger(name).propagate = True
        logging.captureWarnings(True)
        sys.excepthook = self._main_thread_crashed
        threading.excepthook = lambda a: _crashed(
            a.exc_value, a.thread.name if a.thread else "thread"
        )
        sys.unraisablehook = lambda a: _crashed(a.exc_value, "finalizer")

    def close(self) -> None:
        """Write what is held back; what comes after this is written at once."""
        if self._listener is None:
            return
        root = logging.getLogger()
        if self.handler in root.handlers:
            root.handlers = [self._direct]
        listener, self._listener = self._listener, None
        listener.stop()

    def _main_thread_crashed(
        self, kind: type[BaseException], error: BaseException, trace: object
    ) -> None:
        self.close()
        _crashed(error, "main thread")


def _crashed(error: BaseException | None, where: str) -> None:
    if error is not None and not isinstance(error, SystemExit):
        log_event(log, "crashed", where=where, failure=failed_in(error))
