"""Long work in a queue: audits and retrainings, done by the worker that holds the lease."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.store.database import ModelDatabase, insert
from unfit.store.errors import QueueFull
from unfit.store.records import Job, JobKind
from unfit.store.schema import jobs

WAITING = 20  # so many jobs may wait
ATTEMPTS = 3  # before a job is given up


class Jobs:
    """The `jobs` table: audits and retrainings that were asked for."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database
        self._mine = jobs.c.model_id == database.model_id

    def submit(
        self, kind: JobKind, options: Mapping[str, Any], now: datetime, by: str | None = None
    ) -> int:
        with self._database.queueing() as connection:
            count = sa.select(sa.func.count()).select_from(jobs)
            waiting = connection.execute(count.where(self._mine, jobs.c.state == "pending"))
            if waiting.scalar_one() >= WAITING:
                raise QueueFull(f"{WAITING} jobs wait already; try again later")
            return insert(
                connection,
                jobs,
                model_id=self._database.model_id,
                kind=kind,
                state="pending",
                options=options,
                submitted_at=now,
                submitted_by=by,
            )

    def find(
        self,
        *,
        id: int | None = None,
        kind: str | None = None,
        state: str | None = None,
        before: int | None = None,
        last: int | None = None,
    ) -> list[Job]:
        """In the order of their submission; the last so many below an id."""
        select = sa.select(jobs).where(self._mine).order_by(jobs.c.id.desc()).limit(last)
        for column, wanted in ((jobs.c.id, id), (jobs.c.kind, kind), (jobs.c.state, state)):
            if wanted is not None:
                select = select.where(column == wanted)
        if before is not None:
            select = select.where(jobs.c.id < before)
        with self._database.reading() as connection:
            rows = connection.execute(select).all()
        return [Job.from_row(row) for row in reversed(rows)]

    def start(self, job: Job, now: datetime) -> None:
        begun = {"started_at": now, "attempts": jobs.c.attempts + 1}
        self._set(job.id, state="running", stage="starting", done=0, total=0, **begun)

    def progress(self, id: int, stage: str, done: int, total: int) -> None:
        self._set(id, stage=stage, done=done, total=total)

    def finish(
        self, id: int, now: datetime, *, audit_id: int | None = None, version: int | None = None
    ) -> None:
        self._set(id, state="done", finished_at=now, audit_id=audit_id, version=version, stage=None)

    def fail(self, id: int, error: str, now: datetime) -> None:
        self._set(id, state="failed", finished_at=now, error=error[:500], stage=None)

    def resume(self, now: datetime) -> None:
        """Let the jobs of a worker that died wait again: audits and retrainings can be repeated.
        A job that takes its worker down again and again is given up."""
        with self._database.writing() as connection:
            running = sa.update(jobs).where(self._mine & (jobs.c.state == "running"))
            error = f"its process and its worker ended {ATTEMPTS} times before it was done"
            connection.execute(
                running.where(jobs.c.attempts >= ATTEMPTS).values(
                    state="failed", finished_at=now, stage=None, error=error
                )
            )
            connection.execute(running.values(state="pending", started_at=None, stage=None))

    def _set(self, id: int, **values: Any) -> None:
        with self._database.writing() as connection:
            self._database.fence(connection)  # another worker may be doing this job again
            connection.execute(sa.update(jobs).where(self._mine & (jobs.c.id == id)).values(values))
