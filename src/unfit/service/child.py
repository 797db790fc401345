"""A child process: `python -m unfit.service.child api FOLDER SOCKET`, or `worker FOLDER`."""

import os
import sys
import threading
from pathlib import Path

if __name__ == "__main__":
    if sys.argv[1] == "api":
        from unfit.service.server import answer

        answer(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        from unfit.service.child_process import compute_cores
        from unfit.service.worker import work

        if compute_cores():
            os.sched_setaffinity(0, compute_cores())
        work(Path(sys.argv[2]), threading.Event())
