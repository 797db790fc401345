"""The lines of a deletion list, and how far somebody has read them. Touches no files.

The first line is a head: {"unfit": "deletion list", "format": 2, "id": ..., "replaces": [...]}.
Every other line names one thing, a "subject", a "row", a "workspace" that uses the list or the
fingerprint of its "key", and ends with the digest of all bytes before it: {"subject": "1042",
"after": "5f2e..."}. Lists of earlier releases have neither a head nor digests.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from unfit.errors import Damaged, Unavailable
from unfit.store.records import IdKind

FORMAT = 2
KINDS = ("subject", "row", "workspace", "key")
Entry = tuple[str, str]  # kind and value

_SHORT = 16  # characters of a digest at the end of a line


@dataclass(frozen=True)
class Position:
    """How far a list was read: which list, how many lines, and the digest of their bytes."""

    list_id: str
    lines: int
    digest: str

    def __str__(self) -> str:
        return f"{self.list_id}:{self.lines}:{self.digest}"

    @classmethod
    def parse(cls, text: str | None) -> "Position | None":
        if text is None:
            return None
        list_id, lines, digest = text.split(":")
        return cls(list_id, int(lines), digest)


class Relation(Enum):
    """How a list compares with the position up to which somebody has read it."""

    SAME = "same"
    LONGER = "longer"
    UNREAD = "unread"  # nothing of it was read yet
    REPLACED = "replaced"  # by a new list, when a loss was accepted
    EMPTY = "empty"
    CUT = "cut"
    CHANGED = "changed"
    OTHER = "other"


@dataclass(frozen=True)
class Head:
    list_id: str
    replaces: tuple[str, ...] = ()

    def line(self) -> bytes:
        content = {"unfit": "deletion list", "format": FORMAT, "id": self.list_id}
        if self.replaces:
            content["replaces"] = list(self.replaces)
        return _line(content)


@dataclass(frozen=True)
class Content:
    """Lines of a list, read at one moment: up to which position, and what they name."""

    position: Position | None  # None: a list of an earlier release, or an empty one
    entries: Sequence[Entry]

    def of(self, kind: str) -> list[str]:
        return [value for found, value in self.entries if found == kind]

    @property
    def ids(self) -> list[tuple[IdKind, str]]:
        return [
            ("subject" if kind == "subject" else "row", value)
            for kind, value in self.entries
            if kind in ("subject", "row")
        ]

    @property
    def key_fingerprint(self) -> str | None:
        found = self.of("key")
        return found[-1] if found else None

    @property
    def earlier_bytes(self) -> int:
        """The length that an earlier release would have written these lines with."""
        plain = ((kind, value) for kind, value in self.entries if kind != "key")
        return sum(len(_line({kind: value})) for kind, value in plain)


def whole(content: bytes) -> bytes:
    """Everything but a last line that a crash has cut short."""
    return content[: content.rfind(b"\n") + 1]


def head_of(lines: bytes, name: str) -> Head | None:
    """The head of a list; None if it has no head."""
    try:
        found = json.loads(lines[: lines.find(b"\n") + 1])
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("unfit") != "deletion list":
        return None
    if found.get("format") != FORMAT:
        raise Unavailable(f"{name} was written by a newer unfit; install that one")
    return Head(str(found.get("id")), tuple(map(str, found.get("replaces", ()))))


def position_of(lines: bytes, name: str) -> Position | None:
    """The end of a list."""
    head = head_of(lines, name)
    if head is None:
        return None
    return Position(head.list_id, lines.count(b"\n"), hashlib.sha256(lines).hexdigest())


def relation(lines: bytes, known: Position | None, name: str) -> Relation:
    """How a list compares with what is known of it."""
    if not lines:
        return Relation.EMPTY
    if known is None:
        return Relation.UNREAD
    head = head_of(lines, name)
    if head is None or head.list_id != known.list_id:
        replaced = head is not None and known.list_id in head.replaces
        return Relation.REPLACED if replaced else Relation.OTHER
    end = end_of(lines, known.lines)
    if end is None:
        return Relation.CUT
    if hashlib.sha256(lines[:end]).hexdigest() != known.digest:
        return Relation.CHANGED
    return Relation.SAME if end == len(lines) else Relation.LONGER


def end_of(lines: bytes, count: int) -> int | None:
    """The byte at which this many lines end; None if there are fewer."""
    there = lines.count(b"\n")
    if not 0 < count <= there:
        return None
    if count == there:  # as it is nearly always
        return lines.rindex(b"\n") + 1
    import numpy as np

    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n"))
    return int(ends[count - 1]) + 1


def read(lines: bytes, name: str, start: int = 0) -> Content:
    """What a list names, from a byte on; each line is checked against those before it."""
    position = position_of(lines, name)
    if position is None:
        return Content(None, list(_plain(lines, name)))
    running = hashlib.sha256(lines[:start])
    entries: list[Entry] = []
    for number, line in _numbered(lines, start):
        if number > 1:  # the first is the head
            entry, after = _entry(line, number, name)
            if after != running.hexdigest()[:_SHORT]:
                raise Damaged(
                    f"line {number} of {name} does not follow from the lines before it: they were "
                    "edited, or lines are missing; put the newest copy of the list back, or run "
                    "`unfit accept-loss`"
                )
            entries.append(entry)
        running.update(line + b"\n")
    return Content(position, entries)


def salvage(lines: bytes, name: str) -> list[Entry]:
    """What a list names, even if its digests are wrong."""
    first = 2 if head_of(lines, name) is not None else 1
    return [_entry(line, n, name)[0] for n, line in _numbered(lines, 0) if n >= first]


def write(before: bytes, entries: Iterable[Entry]) -> bytes:
    """The lines for new entries, to be added after those there are."""
    running = hashlib.sha256(before)
    made: list[bytes] = []
    for kind, value in entries:
        line = _line({kind: value, "after": running.hexdigest()[:_SHORT]})
        running.update(line)
        made.append(line)
    return b"".join(made)


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"


def _numbered(lines: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    first = lines.count(b"\n", 0, start) + 1
    return enumerate(lines[start:].split(b"\n")[:-1], first)


def _plain(lines: bytes, name: str) -> Iterator[Entry]:
    for number, line in _numbered(lines, 0):
        yield _entry(line, number, name)[0]


def _entry(line: bytes, number: int, name: str) -> tuple[Entry, str | None]:
    try:
        content = json.loads(line)
        after = content.pop("after", None)
        ((kind, value),) = content.items()
    except (ValueError, AttributeError, TypeError):
        kind = value = None
    if kind not in KINDS or not isinstance(value, str):
        raise Damaged(f"line {number} of {name} is not an id; put the newest copy of the list back")
    return (kind, value), after
