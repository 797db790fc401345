"""The secret beside a deletion list: with it alone can digests of ids in a workspace be made."""

import contextlib
import hashlib
import os
import secrets
import tempfile
from pathlib import Path

from unfit import disk
from unfit.errors import Damaged, Unavailable


class DigestKey:
    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes | None:
        """The key; None where there is no file."""
        try:
            key = bytes.fromhex(self.path.read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            key = b""
        if not key:
            raise Damaged(f"{self.path.name} does not hold a key; {self.remedy}")
        return key

    @property
    def remedy(self) -> str:
        return (
            f"put {self.path.name} back from the backup. If it is lost for good, "
            "`unfit accept-loss` says what is lost with it, and goes on with a new one"
        )

    def lost(self) -> Unavailable:
        return Unavailable(
            f"the key {self.path.name} is gone, and without it nobody can tell who was forgotten "
            f"here; {self.remedy}"
        )

    def wrong(self) -> Unavailable:
        return Unavailable(
            f"{self.path.name} is not the key that this workspace was kept with, and with another "
            f"nobody can tell who was forgotten here; {self.remedy}"
        )

    def make(self) -> bytes:
        """A new key; whoever links it first has made it."""
        try:
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}-")
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_hex(32))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(name, self.path)
            os.unlink(name)
            disk.sync_folder(self.path.parent)
        except OSError as error:
            raise Unavailable(f"cannot write {self.path}: {error.strerror}") from None
        made = self.read()
        assert made is not None
        return made


def fingerprint(key: bytes) -> str:
    """Tells one key from another, and nothing else of it."""
    return hashlib.blake2b(b"unfit digest key", key=key, digest_size=8).hexdigest()
