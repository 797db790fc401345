"""One job in a process of its own: `python -m unfit.service.job FOLDER ID HOLDER`."""

import os
import sys
import time
from pathlib import Path

from unfit.clock import now
from unfit.errors import UnfitError
from unfit.service.child_process import lifeline
from unfit.service.log import LogOutput
from unfit.workspace import Workspace

PROGRESS_SECONDS = 0.3


def main(folder: Path, id: int, holder: str) -> None:
    lifeline()
    LogOutput().install()
    with Workspace(folder) as workspace:
        workspace.work_as("a job of the service")
        jobs = workspace.store.jobs
        workspace.store.require_lease(workspace.store.lease(holder))
        (job,) = jobs.find(id=id)
        if job.kind == "audit" and hasattr(os, "SCHED_IDLE"):  # nothing waits for an audit
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        reported_at = 0.0

        def progress(stage: str, done: int, of: int) -> None:
            nonlocal reported_at
            if time.monotonic() - reported_at > PROGRESS_SECONDS:
                jobs.progress(id, stage, done, of)
                reported_at = time.monotonic()

        try:
            if job.kind == "audit":
                report = workspace.audit(progress=progress, **job.options)
                jobs.finish(id, now(), audit_id=report.id, version=report.version)
            else:
                made = workspace.retrain(progress, reason="asked for")
                jobs.finish(id, now(), version=made.version)
        except UnfitError as error:
            jobs.fail(id, str(error), now())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
