"""What the API processes count for Prometheus: requests, their duration, and predicted rows."""

import os
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client import multiprocess as shared
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # when a counter began is of no interest

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The counters of this process, or of all processes if PROMETHEUS_MULTIPROC_DIR is set."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "unfit_requests_total",
            "Requests to the API and the pages that were answered.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "unfit_request_seconds",
            "Seconds from a request reaching the app to the end of its answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._rows = Counter(
            "unfit_predictions_total", "Rows predicted over the API.", registry=self._registry
        )
        self._denied = Counter(
            "unfit_denied_total",
            "Requests answered 401, 403 or 429.",
            ("status",),
            registry=self._registry,
        )
        # looked up once: `labels` costs more than counting
        self._children: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        found = self._children.get(key)
        if found is None:
            count = self._requests.labels(method, route, str(status))
            found = self._children[key] = (count, self._seconds.labels(route))
        found[0].inc()
        found[1].observe(seconds)
        if status in (401, 403, 429):
            self._denied.labels(str(status)).inc()

    def predicted(self, rows: int) -> None:
        self._rows.inc(rows)

    def render(self, more: Collector) -> bytes:
        """The counters of all processes, and what another collector adds."""
        registry = CollectorRegistry()
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            shared.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        else:
            registry.register(self._registry)
        registry.register(more)
        return generate_latest(registry)
