"""A process of the service: python -m unfit.service.child api FOLDER SOCKET, or worker FOLDER."""

import os
import sys
import threading
from pathlib import Path

if __name__ == "__main__":
    if sys.argv[1] == "api":
        from unfit.service.server import answer

        answer(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        from unfit.service.child_process import share
        from unfit.service.worker import work

        if share():
            os.sched_setaffinity(0, share())
        work(Path(sys.argv[2]), threading.Event())
