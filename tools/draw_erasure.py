"""Draws the way of an erasure from the code: `python tools/draw_erasure.py`.

It forgets one person in a small workspace that was just opened, notes every call from one file of
unfit to another, and writes the files in the order they are first entered, room by room, to
docs/erasure.svg and to the list in docs/design.md. `--check` fails if they are not up to date.

The way goes down, from the workspace to the lifecycle, the methods, the engines and the core. The
compiled kernels lie below it. The store and the data lie beside it: the workspace calls them, and
they answer. Single modules such as
disk.py are shared by all.
"""

import csv
import os
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import FrameType

import unfit
from unfit.workspace import Workspace, init

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURE = DOCS / "design.md", DOCS / "erasure.svg"
BEGIN, END = (
    "<!-- files of an erasure: written by tools/draw_erasure.py -->",
    "<!-- end of files -->",
)
SOURCE = Path(unfit.__file__).parent
DOWN = ("workspace", "lifecycle", "methods", "engines", "core")  # each may call those after it
BESIDE = ("store", "data")  # called by the workspace; may call core
KERNELS = "kernels"  # core/kernels: compiled loops, called by the core and below everything
ROOMS = (*DOWN, KERNELS, *BESIDE, "shared")


@dataclass
class Trace:
    """Calls between files. files: in the order they were first entered."""

    files: list[str] = field(default_factory=list)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    hooks: set[tuple[str, str]] = field(default_factory=set)

    def note(self, caller: str | None, callee: str, function: str) -> None:
        if callee not in self.files:
            self.files.append(callee)
        if caller is not None and caller != callee:
            self.calls[caller, callee] += 1
            if not may_call(room_of(caller), room_of(callee)):
                self.hooks.add((caller, f"{callee}:{function}"))

    @property
    def way(self) -> list[str]:
        """The files on the way down, without those beside it and those shared by all."""
        return [file for file in self.files if room_of(file) in DOWN]

    @property
    def changes_of_room(self) -> Counter[tuple[str, str]]:
        """Pairs of rooms, and how many pairs of files call from one into the other."""
        pairs = ((room_of(a), room_of(b)) for a, b in self.calls)
        return Counter(pair for pair in pairs if pair[0] != pair[1])


def room_of(file: str) -> str:
    """The room of a file, by its path inside the package; single modules are shared by all."""
    room, found, rest = file.partition("/")
    if rest.startswith(f"{KERNELS}/"):
        return KERNELS
    return room if found else "shared"


def may_call(caller: str, callee: str) -> bool:
    """Whether calls from one room into another go down, or aside into the store and the data."""
    if callee == "shared" or caller == callee:
        return True
    if callee == KERNELS or caller == KERNELS:
        return caller != KERNELS
    if caller in BESIDE or caller == "shared":
        return callee == "core"
    if callee in BESIDE:
        return caller == "workspace"
    return DOWN.index(caller) < DOWN.index(callee)


@contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """Note every call of a function of unfit by another one, in this thread."""
    root = f"{SOURCE}{os.sep}"
    names: dict[str, str | None] = {}

    def name_of(path: str) -> str | None:
        if path not in names:
            ours = path.startswith(root)
            names[path] = Path(path).relative_to(SOURCE).as_posix() if ours else None
        return names[path]

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name in ("<module>", "<genexpr>"):
            return  # a generator that was handed down gives values and does no work of its own
        callee = name_of(code.co_filename)
        if callee is None:
            return
        back = frame.f_back
        while back is not None and name_of(back.f_code.co_filename) is None:
            back = back.f_back
        caller = None if back is None else name_of(back.f_code.co_filename)
        trace.note(caller, callee, code.co_qualname)

    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)


def trace_erasure() -> Trace:
    """The calls of one erasure, from `Workspace.forget` to its answer, after one that loaded all
    code."""
    trace = Trace()
    with tempfile.TemporaryDirectory() as folder:
        with _workspace(Path(folder)) as ws:
            ws.forget(subjects=["p001"])
        with Workspace(Path(folder) / "ws") as ws, tracing(trace):
            made = ws.forget(subjects=["p002"])
    assert made.action == "update", made.reason
    assert made.purged
    return trace


def _workspace(folder: Path) -> Workspace:
    """A trained workspace of a few hundred people."""
    rng = random.Random(0)
    with (folder / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "age", "income", "city", "left"])
        for i in range(400):
            age, income = rng.gauss(45, 12), rng.gauss(30, 8)
            left = "yes" if age - income + rng.gauss(0, 8) > 15 else "no"
            city = rng.choice(["Ulm", "Hof", "Bonn"])
            writer.writerow([f"p{i:03d}", f"{age:.1f}", f"{income:.1f}", city, left])
    init(folder / "people.csv", folder / "ws", label="left", subject="person", random_state=0)
    config = folder / "ws" / "unfit.toml"
    text = config.read_text()
    config.write_text(text.replace('["distance", "log_loss", "disparity"]', '["never"]'))
    ws = Workspace(folder / "ws")
    ws.train()
    ws.prepare()
    return ws


# --- the picture -------------------------------------------------------------------------------

WIDTH, ROW, HEAD, STEP = 196, 22, 64, 12
COLOURS = {
    "workspace": "#d6e4f0",
    "store": "#f3e3d3",
    "data": "#e6edd5",
    "lifecycle": "#e8dff0",
    "methods": "#f6dce0",
    "engines": "#fbeecb",
    "core": "#d9ecea",
    "kernels": "#cfe3f3",
    "shared": "#e9e9e9",
}


def picture(trace: Trace) -> str:
    """An SVG: a column for each room, the files numbered in the order they are entered."""
    rooms = [room for room in ROOMS if any(room_of(f) == room for f in trace.files)]
    columns = {room: [f for f in trace.files if room_of(f) == room] for room in rooms}
    arrows = _arrows(trace, rooms, HEAD + ROW * max(map(len, columns.values())) + 48)
    height = HEAD + ROW * max(map(len, columns.values())) + 60 + STEP * (len(arrows) - 2)
    parts = ['<rect width="100%" height="100%" fill="white"/>', _heading(trace)]
    for i, room in enumerate(rooms):
        parts.append(_column(i, room, columns[room], trace.files))
    parts += arrows
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(rooms)} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" role="img" '
        'aria-labelledby="title">\n<title id="title">The files that one erasure passes, room by '
        "room</title>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def counted(trace: Trace) -> str:
    """How many files there are, and which of them the limit of the tests counts."""
    down = f"{len(trace.way)} on the way down, from the {DOWN[0]} to the {DOWN[-1]}"
    return f"{len(trace.files)} files: {down}, and {len(trace.files) - len(trace.way)} beside it"


def _heading(trace: Trace) -> str:
    text = f"One erasure passes {counted(trace)}, numbered as they are first entered"
    return f'<text x="8" y="20" font-size="14" font-weight="bold">{text}</text>'


def _column(i: int, room: str, files: list[str], order: list[str]) -> str:
    x = i * WIDTH + 4
    tall = ROW * len(files) + 30
    parts = [
        f'<rect x="{x}" y="{HEAD - 30}" width="{WIDTH - 8}" height="{tall}" rx="4" '
        f'fill="{COLOURS[room]}"/>',
        f'<text x="{x + 8}" y="{HEAD - 14}" font-weight="bold">{escape(room)}</text>',
    ]
    for j, file in enumerate(files):
        y = HEAD + ROW * j + 8
        name = file.partition("/")[2] or file
        parts.append(
            f'<text x="{x + 26}" y="{y}" text-anchor="end" fill="#666">'
            f"{order.index(file) + 1}</text>"
            f'<text x="{x + 32}" y="{y}">{escape(name)}</text>'
        )
    return "\n".join(parts)


def _arrows(trace: Trace, rooms: list[str], y: float) -> list[str]:
    """Which rooms call which; dashed: hooks, functions that a room was handed from above."""
    hooks = {(room_of(a), room_of(b)) for a, b in trace.hooks}
    pairs = [pair for pair in trace.changes_of_room if pair[1] != "shared"]
    pairs.sort(key=lambda pair: (rooms.index(pair[0]), rooms.index(pair[1])))
    text = "An arrow: a room calls another one. Dashed: through a function that it was handed."
    parts = [
        f'<text x="8" y="{y - 14:g}" fill="#444">{text}</text>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#444"/></marker></defs>',
    ]
    for i, (a, b) in enumerate(pairs):
        start = rooms.index(a) * WIDTH + WIDTH / 2
        end = rooms.index(b) * WIDTH + WIDTH / 2
        dashed = ' stroke-dasharray="4 3"' if (a, b) in hooks else ""
        level = y + STEP * i
        parts.append(
            f'<path d="M{start:g} {level:g} H{end:g}" stroke="#444" fill="none"{dashed} '
            'marker-end="url(#tip)"/>'
        )
    return parts


# --- the list in the document ------------------------------------------------------------------


def listing(trace: Trace) -> str:
    """A line for each room: its files in the order they are first entered."""
    lines = [
        f"An erasure passes {counted(trace)} (kernels, store, data and what is shared).",
        "They are numbered in the order they are first entered:",
        "",
    ]
    for room in ROOMS:
        files = [f for f in trace.files if room_of(f) == room]
        if files:
            numbered = (f"{trace.files.index(f) + 1} `{f.partition('/')[2] or f}`" for f in files)
            lines.append(f"- **{room}**: {', '.join(numbered)}")
    lines += ["", "What calls back up are hooks, functions that a lower room was handed:", ""]
    lines += [f"- `{caller}` calls `{hook}`" for caller, hook in sorted(trace.hooks)]
    return "\n".join(lines)


def files_listed(page: str) -> set[str]:
    """The files that a document lists between the marks."""
    listed = page.partition(BEGIN)[2].partition(END)[0]
    found: set[str] = set()
    for room, files in re.findall(r"^- \*\*(\w+)\*\*: (.*)$", listed, re.MULTILINE):
        prefix = {"shared": "", KERNELS: "core/"}.get(room, f"{room}/")
        found.update(prefix + name for name in re.findall(r"`([^`]+)`", files))
    return found


def rewritten(text: str, trace: Trace) -> str:
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{listing(trace)}\n{END}{tail}"


def main() -> None:
    trace = trace_erasure()
    made = {PAGE: rewritten(PAGE.read_text(), trace), PICTURE: picture(trace)}
    for path, text in made.items():
        if "--check" in sys.argv and (not path.exists() or path.read_text() != text):
            sys.exit(f"docs/{path.name} is not what the code does; run tools/draw_erasure.py")
        path.write_text(text)


if __name__ == "__main__":
    main()
