"""One writer at a time: a lock on a file of the workspace, which the system frees at death."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unfit import disk


class WriterLock:
    """Held by whoever changes a workspace; the same thread may take it again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = threading.RLock()
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._thread:
            if self._depth:
                yield
                return
            with disk.locked(self.path):
                self._depth = 1
                try:
                    yield
                finally:
                    self._depth = 0
