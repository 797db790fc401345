"""The deletion list: the ids of everybody forgotten, one a line, outside the workspace.

It is written before a deletion is committed, so that whatever happens to the workspace (a restored
backup, a rebuilt one) those people stay forgotten. It holds ids, and which workspaces use it.
"""

import contextlib
import fcntl
import json
import os
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path

from unfit import disk
from unfit.errors import Damaged, Unavailable
from unfit.store.records import IdKind


class DeletionList:
    """A file of lines like {"subject": "1042"}, and one {"workspace": id} for each that uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def digest_key(self) -> bytes:
        """A secret beside the list: with it, digests in a workspace can be told from each other."""
        path = self.path.with_name(f"{self.path.name}.key")
        try:
            return bytes.fromhex(path.read_text())
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
        except ValueError:
            raise Damaged(f"{path.name} does not hold a key") from None
        try:  # whoever links first has made it
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_hex(32))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(name, path)
            os.unlink(name)
            disk.sync_folder(path.parent)
        except OSError as error:
            raise Unavailable(f"cannot write {path}: {error.strerror}") from None
        return bytes.fromhex(path.read_text())

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
        """Add ids and bring them to the disk; the new length."""
        return self._add({kind: value} for kind, value in ids)

    def _add(self, entries: Iterable[dict[str, str]]) -> int:
        """Add lines at the end; a torn last line is cut first."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        lines = b"".join(
            json.dumps(entry, ensure_ascii=False).encode() + b"\n" for entry in entries
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

    def join(self, workspace: str) -> int:
        """Enter a workspace among those that use this list; the list's length."""
        if workspace in self.workspaces():
            return self.size()
        return self._add([{"workspace": workspace}])

    def workspaces(self) -> set[str]:
        return {value for kind, value in self._lines() if kind == "workspace"}

    def ids(self) -> list[tuple[IdKind, str]]:
        """All ids in whole lines."""
        return [
            ("subject" if kind == "subject" else "row", value)
            for kind, value in self._lines()
            if kind != "workspace"
        ]

    def _lines(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for line in self._whole().split(b"\n")[:-1]:
            try:
                ((kind, value),) = json.loads(line).items()
            except (ValueError, AttributeError):
                raise Damaged(f"{self.path.name} holds a line that is not an id") from None
            if kind not in ("subject", "row", "workspace") or not isinstance(value, str):
                raise Damaged(f"{self.path.name} holds a line that is not an id")
            found.append((kind, value))
        return found

    def _whole(self) -> bytes:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        return content[: content.rfind(b"\n") + 1]
