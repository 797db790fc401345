"""When the worker purges: at most once a second, and less often while the database is busy."""

import pytest

from unfit.workspace.purge_schedule import (
    EXPIRY_SECONDS,
    LONGEST_SECONDS,
    PURGE_SECONDS,
    PurgeSchedule,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_first_purge_is_due_at_once_and_the_next_after_a_pause(clock: Clock) -> None:
    schedule = PurgeSchedule(clock)
    assert schedule.purge_is_due()
    schedule.note_purge(finished=True)
    assert not schedule.purge_is_due()
    clock.now += PURGE_SECONDS
    assert schedule.purge_is_due()


def test_a_purge_that_could_not_finish_is_tried_ever_less_often(clock: Clock) -> None:
    schedule = PurgeSchedule(clock)
    pauses = []
    for _ in range(8):
        schedule.note_purge(finished=False)
        pauses.append(schedule.next_purge - clock.now)
    assert pauses[:3] == [2 * PURGE_SECONDS, 4 * PURGE_SECONDS, 8 * PURGE_SECONDS]
    assert pauses[-1] == LONGEST_SECONDS
    schedule.note_purge(finished=True)
    assert schedule.next_purge - clock.now == PURGE_SECONDS


def test_expiry_is_due_once_in_a_while(clock: Clock) -> None:
    schedule = PurgeSchedule(clock)
    assert schedule.expiry_is_due()
    assert not schedule.expiry_is_due()
    clock.now += EXPIRY_SECONDS
    assert schedule.expiry_is_due()


def test_a_commit_is_followed_by_a_purge_unless_it_is_deferred() -> None:
    assert not PurgeSchedule().deferred
