"""The deletion list: the ids of everybody forgotten, one a line, outside the workspace.

It is written before a deletion is committed, so that whatever happens to the workspace (a restored
backup, a rebuilt one) those people stay forgotten. It holds ids and nothing else.
"""

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path

from unfit import disk
from unfit.errors import Damaged
from unfit.store.records import IdKind


class DeletionList:
    """A file of lines like {"subject": "1042"}."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        """Bytes in whole lines; 0 where there is no file."""
        length = self.length()
        if length == 0:
            return 0
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) == b"\n":
                return length
        return len(self._whole())  # a crash tore the last line

    def exists(self) -> bool:
        return self.path.exists()

    def length(self) -> int:
        """Bytes of the file, one look."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, ids: Iterable[tuple[IdKind, str]]) -> int:
        """Add ids and bring them to the disk; the new length. A torn last line is cut first."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        lines = b"".join(
            json.dumps({kind: value}, ensure_ascii=False).encode() + b"\n" for kind, value in ids
        )
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # two workspaces may share a list
            whole = self.size()
            try:
                os.ftruncate(handle, whole)
                os.lseek(handle, whole, os.SEEK_SET)
                left = memoryview(lines)
                while left:
                    left = left[os.write(handle, left) :]
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, whole)
                raise
        finally:
            os.close(handle)
        if new:
            disk.sync_folder(self.path.parent)
        return whole + len(lines)

    def create(self) -> None:
        """An empty list, unless there is one."""
        self.append(())

    def ids(self) -> list[tuple[IdKind, str]]:
        """All ids in whole lines."""
        found: list[tuple[IdKind, str]] = []
        for line in self._whole().split(b"\n")[:-1]:
            try:
                ((kind, value),) = json.loads(line).items()
            except (ValueError, AttributeError):
                raise Damaged(f"{self.path.name} holds a line that is not an id") from None
            if kind not in ("subject", "row") or not isinstance(value, str):
                raise Damaged(f"{self.path.name} holds a line that is not an id")
            found.append((kind, value))
        return found

    def _whole(self) -> bytes:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        return content[: content.rfind(b"\n") + 1]
