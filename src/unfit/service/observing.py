"""What operators see: one JSON line per request, with its decision of access, and metrics.

Neither holds an id of a person: routes are logged by their pattern, tokens by their public half.
"""

import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client import multiprocess as shared
from pydantic_core import to_json

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


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


class Metrics:
    """Counters of this process, or of all of them where PROMETHEUS_MULTIPROC_DIR is set."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter(
            "unfit_requests_total", "Requests answered.", labels, registry=self.registry
        )
        self._seconds = Histogram(
            "unfit_request_seconds", "Time to answer a request.", ("route",), buckets=_BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self._rows = Counter("unfit_predictions_total", "Rows predicted.", registry=self.registry)
        self._denied = Counter(
            "unfit_denied_total", "Requests refused by the gate.", ("status",),
            registry=self.registry,
        )  # fmt: skip
        self._of: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        made = self._of.get(key)
        if made is None:
            count = self._requests.labels(method, route, str(status))
            made = self._of[key] = (count, self._seconds.labels(route))
        made[0].inc()
        made[1].observe(seconds)
        if status in (401, 403, 429):
            self._denied.labels(str(status)).inc()

    def predicted(self, rows: int) -> None:
        self._rows.inc(rows)

    def render(self, several: bool, gauges: Mapping[str, tuple[str, float]]) -> bytes:
        """All processes' counters, and what the records say now."""
        registry = self.registry
        if several:
            registry = CollectorRegistry()
            shared.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        text = generate_latest(registry)
        lines = []
        for name, (meaning, value) in gauges.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return text + ("\n".join(lines) + "\n").encode()
