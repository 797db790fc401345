"""Metrics for Prometheus: the counters of all processes, and gauges read from the records."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from unfit.service.context import ServiceContext
from unfit.service.usecases.status import ServiceStatus, read_status

GAUGES = {
    "unfit_pending": "Erasures that are pending.",
    "unfit_unmatched": "Erasures that matched nobody.",
    "unfit_applied": "Erasures in force.",
    "unfit_forgotten_rows": "Rows forgotten, training and held-out.",
    "unfit_forgotten_subjects": "Subjects forgotten.",
    "unfit_version": "The number of the active version; 0 if there is none.",
    "unfit_accuracy": "Accuracy on the held-out rows.",
    "unfit_disparity_estimate_percent": "Estimated disparity at the last decision, in percent.",
    "unfit_disparity_threshold_percent": "policy.disparity, in percent.",
    "unfit_worker": "1 if a worker is running.",
    "unfit_purge_due": "1 if bytes still have to be purged.",
    "unfit_retained_rows": "Deleted rows kept for audits.",
    "unfit_retained_overdue_rows": "Deleted rows kept longer than retention.audit_window.",
    "unfit_certificates": "Certificates in the log.",
    "unfit_certificates_waiting": "Certificates that wait for a signature.",
    "unfit_joint_mu": "mu of all certified releases together.",
    "unfit_joint_epsilon": "epsilon of all certified releases together, at certify.delta.",
}


class StatusCollector:
    """The gauges; those whose value is not known are left out."""

    def __init__(self, status: ServiceStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        for name, value in _values(self._status).items():
            if value is not None:
                yield GaugeMetricFamily(name, GAUGES[name], value=value)


def render(context: ServiceContext) -> bytes:
    """In Prometheus's text format."""
    return context.metrics.render(StatusCollector(read_status(context)))


def _values(status: ServiceStatus) -> dict[str, float | None]:
    version = status.version
    return {
        "unfit_pending": status.counts["pending"],
        "unfit_unmatched": status.counts["unmatched"],
        "unfit_applied": status.counts["applied"],
        "unfit_forgotten_rows": status.forgotten_rows,
        "unfit_forgotten_subjects": status.forgotten_subjects,
        "unfit_version": version.number if version else 0,
        "unfit_accuracy": version.accuracy if version else None,
        "unfit_disparity_estimate_percent": status.estimate,
        "unfit_disparity_threshold_percent": status.threshold,
        "unfit_worker": status.worker,
        "unfit_purge_due": status.purge_due,
        "unfit_retained_rows": status.retained.rows,
        "unfit_retained_overdue_rows": status.retained.overdue_rows,
        "unfit_certificates": status.certificates.entries,
        "unfit_certificates_waiting": status.certificates.waiting,
        "unfit_joint_mu": status.certificates.joint_mu,
        "unfit_joint_epsilon": status.certificates.joint_epsilon,
    }
