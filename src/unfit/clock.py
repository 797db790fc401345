"""The time of day, always in UTC."""

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)
