"""The deletion list: who was forgotten, in a file outside the workspace that only ever grows.

It is written before a deletion is committed, so that whatever happens to the workspace (a restored
backup, a rebuilt one) those people stay forgotten. Several workspaces may share a list. Each keeps
in its database how far it has read and applied it, and so can tell a list that was cut, edited or
replaced from one that has grown.
"""

import fcntl
import hashlib
import os
import secrets
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from unfit import disk
from unfit.errors import Damaged, Unavailable
from unfit.points import reach
from unfit.store.records import IdKind
from unfit.workspace import list_format
from unfit.workspace.layout import key_of
from unfit.workspace.list_format import Content, Entry, Head, Position, Relation

RACY_NS = 20_000_000  # a change so soon after another may have left all times as they were
REMEDY = (
    "put its newest copy back. If there is none, `unfit accept-loss` says what is lost, and goes "
    "on with what there is"
)

_GROWN = (Relation.LONGER, Relation.UNREAD, Relation.REPLACED)
Signature = tuple[int, int, int, int, int]


class DigestKey:
    """The secret beside a deletion list: digests of ids can be made with it alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.expected: Callable[[], str | None] = lambda: None  # its fingerprint in the records
        self._value: bytes | None = None

    def value(self) -> bytes:
        """The key; it is read and checked when it is first needed."""
        return self.require(self.expected()) if self._value is None else self._value

    def require(self, expected: str | None) -> bytes:
        """Read the key; raise if it is lost, or its fingerprint is not the expected one."""
        key = self.read()
        if key is None:
            raise self.lost()
        if expected not in (None, fingerprint(key)):
            raise self.wrong()
        self._value = key
        return key

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
            f"{self.path.name} is not the key that this workspace was made with, and with another "
            f"one nobody can tell who was forgotten here; {self.remedy}"
        )

    def make(self) -> bytes:
        """A new key; whoever links it first has made it."""
        _create(self.path, secrets.token_hex(32).encode())
        made = self.read()
        assert made is not None
        return made


def fingerprint(key: bytes) -> str:
    """A short digest that tells one key from another and reveals nothing else about it."""
    return hashlib.blake2b(b"unfit digest key", key=key, digest_size=8).hexdigest()


class DeletionList:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.key = DigestKey(key_of(path))
        self._seen: tuple[Signature, Position | None, Relation] | None = None

    # --- looking ---------------------------------------------------------------------------------

    def exists(self) -> bool:
        return self.path.exists()

    def agrees(self, known: Position | None) -> bool:
        """Whether a list that was read up to this position is untouched: one look, no reading.

        A program can set the times of a file back, except the time its entry last changed.
        """
        seen = self._seen
        if seen is None or seen[1] != known or seen[2] is not Relation.SAME:
            return False
        try:
            return seen[0] == _signature(self.path.stat())
        except OSError:
            return False

    def check(self, known: Position | None) -> bool:
        """Whether the list ends where it is known to; False if there is more to read. Raises if
        it is gone, or no longer holds what was read from it."""
        found = self._relation(known)
        if found is Relation.SAME:
            return True
        if found in _GROWN:
            return False
        raise self._refusal(found, known)

    def _relation(self, known: Position | None) -> Relation:
        try:
            with self.path.open("rb") as file:
                before = os.fstat(file.fileno())
                signature = _signature(before)
                seen = self._seen
                if seen is not None and seen[:2] == (signature, known):
                    return seen[2]
                started = time.time_ns()
                content = file.read()
                steady = signature == _signature(os.fstat(file.fileno()))
        except FileNotFoundError:
            raise self.gone() from None
        except OSError as error:
            raise Unavailable(f"cannot read {self.path}: {error.strerror}") from None
        found = list_format.relation(list_format.whole(content), known, self.path.name)
        if steady and started - before.st_ctime_ns > RACY_NS:
            self._seen = signature, known, found
        return found

    def gone(self) -> Unavailable:
        return Unavailable(
            f"the deletion list {self.path.name} is gone, so people who were forgotten may be "
            f"remembered here; {REMEDY}"
        )

    def emptied(self) -> Unavailable:
        return self._refusal(Relation.EMPTY, None)

    def _refusal(self, found: Relation, known: Position | None) -> Unavailable:
        lines = " lines" if known is None else f" the {known.lines:,} lines"
        gone = f"it no longer holds{lines} that were read from it"
        said = {
            Relation.EMPTY: "is empty",
            Relation.CUT: f"was cut: {gone}",
            Relation.CHANGED: f"was edited: {gone}",
            Relation.OTHER: (
                "is not the one that this workspace knows: it belongs to another workspace, or "
                "was begun anew"
            ),
        }[found]
        return Unavailable(
            f"the deletion list {self.path.name} {said}, so people who were forgotten may be "
            f"remembered here; {REMEDY}"
        )

    # --- reading ---------------------------------------------------------------------------------

    def read(self) -> Content:
        """All of it, as it is on the disk."""
        return self._read(None)

    def read_after(self, known: Position | None) -> Content:
        """What was added since a position; all of it if the position is not in this list."""
        return self._read(known)

    def _read(self, known: Position | None) -> Content:
        with self._locked(fcntl.LOCK_SH) as handle:
            lines = _lines(handle)
            os.fsync(handle)  # a writer may have been killed before it did so
        found = list_format.relation(lines, known, self.path.name)
        start = 0
        if known is not None and found in (Relation.SAME, Relation.LONGER):
            start = list_format.end_of(lines, known.lines) or 0
        return list_format.read(lines, self.path.name, start)

    # --- writing ---------------------------------------------------------------------------------

    def append(self, ids: Iterable[tuple[IdKind, str]], known: Position) -> Position:
        """Add ids, and bring them to the disk. Returns how far the list is then known to somebody
        who has read it up to `known`: to its end, unless others have added lines in between."""
        return self._add(list(ids), known)

    def join(self, workspace: str, known: Position) -> Position:
        """Note on the list that a workspace uses it."""
        if workspace in self.read().of("workspace"):
            return known
        return self._add([("workspace", workspace)], known)

    def begin(self) -> bytes:
        """For a workspace without a model: make the list and its key if there are none, and bring
        a list of an earlier release up to date. Returns the key."""
        if not self.exists():
            if self.key.read() is not None:
                raise Unavailable(
                    f"{self.key.path.name} is there, but its deletion list {self.path.name} is "
                    f"gone; {REMEDY}"
                )
            self._begin()
            reach("list.created")
        self.upgrade()
        content = self.read()
        key = self.key.read()
        if key is None:
            if content.ids or content.key_fingerprint:
                raise self.key.lost()
            key = self.key.make()
            reach("list.key-written")
        if content.key_fingerprint is None:
            assert content.position is not None
            self._add([("key", fingerprint(key))], content.position)
        elif content.key_fingerprint != fingerprint(key):
            raise self.key.wrong()
        return key

    def upgrade(self) -> None:
        """Give a list of an earlier release a head and digests."""
        with self._locked(fcntl.LOCK_EX) as handle:
            lines = _lines(handle)
            if not lines:
                raise self.emptied()
            if list_format.head_of(lines, self.path.name) is not None:
                return
            found = list_format.read(lines, self.path.name).entries
            key = self.key.read()
            more = [] if key is None else [("key", fingerprint(key))]
            self._replace(Head(uuid.uuid4().hex), [*found, *more])
            reach("list.upgraded")

    def count_ids(self) -> int:
        """How many ids it names, even if its digests are wrong."""
        if not self.exists():
            return 0
        with self._locked(fcntl.LOCK_SH) as handle:
            found = list_format.salvage(_lines(handle), self.path.name)
        return sum(kind in ("subject", "row") for kind, _ in found)

    def renew(self, known: Position | None) -> None:
        """Accept the list and the key as they are now, under a new id; make new ones if need be."""
        try:
            key = self.key.read() or self.key.make()
        except Damaged:
            disk.remove(self.key.path)
            key = self.key.make()
        if not self.exists():
            self._begin()
        with self._locked(fcntl.LOCK_EX) as handle:
            lines = _lines(handle)
            found = list_format.salvage(lines, self.path.name)
            before = list_format.head_of(lines, self.path.name)
            ids = [] if before is None else [before.list_id, *before.replaces]
            ids += [] if known is None else [known.list_id]
            entries = [*(e for e in found if e[0] != "key"), ("key", fingerprint(key))]
            self._replace(Head(uuid.uuid4().hex, tuple(dict.fromkeys(ids))), entries)

    def _begin(self) -> None:
        """A new list; whoever links it first has made it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _create(self.path, Head(uuid.uuid4().hex).line())

    def _replace(self, head: Head, entries: Sequence[Entry]) -> None:
        """Replace all lines in one step; whoever waits for the lock of the old file looks again."""
        first = head.line()
        disk.write(self.path, first + list_format.write(first, entries))

    def _add(self, entries: Sequence[Entry], known: Position) -> Position:
        with self._locked(fcntl.LOCK_EX) as handle:
            before = _lines(handle)
            found = list_format.relation(before, known, self.path.name)
            if found not in (Relation.SAME, Relation.LONGER):
                raise self._refusal(Relation.OTHER if found in _GROWN else found, known)
            added = list_format.write(before, entries)
            _write(handle, len(before), added)
        if found is Relation.LONGER:
            return known
        end = list_format.position_of(before + added, self.path.name)
        assert end is not None
        return end

    @contextmanager
    def _locked(self, kind: int) -> Iterator[int]:
        """Lock the file that the path names; another process may put a new one in its place."""
        while True:
            try:
                handle = os.open(self.path, os.O_RDWR)
            except FileNotFoundError:
                raise self.gone() from None
            try:
                fcntl.flock(handle, kind)
                if _same_file(handle, self.path):
                    yield handle
                    return
            finally:
                os.close(handle)


class ListWatch:
    """Whether a prediction may be answered: only if nobody on the deletion list is remembered.

    The list must first be seen to end where this workspace has applied it, which it does not for a
    restored backup. Lines that are added from then on are erasures under way, this workspace's own
    or another's: the model answers until they are in force. A list that is gone, cut or edited is
    refused at any time.
    """

    def __init__(self, deletions: DeletionList) -> None:
        self._deletions = deletions
        self._agreed: Position | None = None

    def may_answer(self, known: Position | None) -> bool:
        """known: how far the list is applied here, as the records say."""
        if self._deletions.check(known):
            self._agreed = known
            return True
        before = self._agreed
        if before is None or known is None:
            return False
        return known.list_id == before.list_id and known.lines >= before.lines

    def caught_up(self, known: Position | None) -> None:
        """The list was applied up to its end a moment ago."""
        self._agreed = known

    def start_over(self) -> None:
        """Forget what was seen: the records may be those of a backup."""
        self._agreed = None


def _create(path: Path, content: bytes) -> None:
    """A new file, complete when it appears; one that is there already stays."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(name)
        disk.sync_folder(path.parent)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}") from None


def _same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _signature(found: os.stat_result) -> Signature:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _lines(handle: int) -> bytes:
    with os.fdopen(os.dup(handle), "rb") as file:
        file.seek(0)
        return list_format.whole(file.read())


def _write(handle: int, end: int, lines: bytes) -> None:
    """Add lines after the last complete one; all of them or none."""
    try:
        if os.fstat(handle).st_size > end:  # a torn line
            os.ftruncate(handle, end)
        half = len(lines) // 2
        _write_at(handle, end, lines[:half])
        reach("list.half-written")
        _write_at(handle, end + half, lines[half:])
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, end)
        raise


def _write_at(handle: int, at: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        written = os.pwrite(handle, left, at)
        left, at = left[written:], at + written
