"""Metrics for Prometheus: what was answered, how fast, and what the records say now."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client import multiprocess as shared

disable_created_metrics()  # type: ignore[no-untyped-call]  # they count nothing that anybody asked

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of this process, or of all of them where PROMETHEUS_MULTIPROC_DIR is set."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter(
            "unfit_requests_total",
            "Requests to the API and the pages that were answered.",
            labels,
            registry=self.registry,
        )
        self._seconds = Histogram(
            "unfit_request_seconds",
            "From a request reaching the app to the end of its answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._rows = Counter(
            "unfit_predictions_total", "Rows predicted over the API.", registry=self.registry
        )
        self._denied = Counter(
            "unfit_denied_total",
            "Requests answered 401, 403 or 429.",
            ("status",),
            registry=self.registry,
        )
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

    def render(self, several: bool, gauges: Mapping[str, tuple[str, float | None]]) -> bytes:
        """All processes' counters, and what the records say now; what is not known is left out."""
        registry = self.registry
        if several:
            registry = CollectorRegistry()
            shared.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        text = generate_latest(registry)
        lines = []
        for name, (meaning, value) in gauges.items():
            if value is None:
                continue
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return text + ("\n".join(lines) + "\n").encode()
