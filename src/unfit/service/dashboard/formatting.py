"""Times, durations and numbers as the pages show them."""

from datetime import datetime

from unfit.store.records import AuditRecord


def moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def milliseconds(value: float) -> str:
    """With enough digits to check a ratio of two of them by eye."""
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"


def difference(seconds: float) -> str:
    """A signed duration."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= length:
            return f"{seconds / length:+.1f} {unit}"
    return f"{seconds:+.1f} s"


def age(at: datetime, now: datetime) -> str:
    """How long ago, in words."""
    seconds = max(0.0, (now - at).total_seconds())
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // length)
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.2g} times"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def outcome(audit: AuditRecord) -> str:
    """forgotten, not forgotten or cannot tell; audits of earlier releases recorded none of them."""
    return str(audit.report.get("outcome", "cannot tell"))
