"""The time of day, always in UTC."""

from collections.abc import Callable
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def in_utc(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """A clock that gives the times of another one in UTC."""

    def converted() -> datetime:
        moment = clock()
        if moment.tzinfo is None:
            raise ValueError("the clock gives times without a zone")
        return moment.astimezone(UTC)

    return converted
