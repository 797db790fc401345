"""When to purge: at once after each commit, or now and then for many commits together.

The command line purges as soon as a version is committed. The worker applies requests as they come
and purges at most every PURGE_SECONDS, because nobody can write meanwhile and readers may have to
wait; it waits longer after a purge that could not finish because the database was being read.
"""

import time
from collections.abc import Callable

PURGE_SECONDS = 1.0  # between two purges
LONGEST_SECONDS = 30.0  # between two tries, however often they fail
EXPIRY_SECONDS = 1.0  # between two looks for retained rows whose time is over


class PurgeSchedule:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.deferred = False  # True: a commit is not followed by a purge
        self._monotonic = monotonic
        self.next_purge = self._next_expiry = 0.0
        self._pause = PURGE_SECONDS

    def purge_is_due(self) -> bool:
        """Whether a deferred purge may start now."""
        return self._monotonic() >= self.next_purge

    def note_purge(self, finished: bool) -> None:
        self._pause = PURGE_SECONDS if finished else min(LONGEST_SECONDS, 2 * self._pause)
        self.next_purge = self._monotonic() + self._pause

    def expiry_is_due(self) -> bool:
        """Whether it is time to look for retained rows to remove; asking starts the next wait."""
        now = self._monotonic()
        if now < self._next_expiry:
            return False
        self._next_expiry = now + EXPIRY_SECONDS
        return True
