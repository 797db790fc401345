"""Times another checkout of unfit and this one, by turns, on one machine.

    python tools/compare_releases.py OTHER [--rounds 3] [--only bench,erasure,predictions]
                                     [--sections forgetting,noise]

OTHER is a folder with a checkout and its .venv (`make demo` there makes one). Compared are what
`unfit bench --quick` measures, the erasure of one person in a workspace from the call to its
answer, and predictions per second at full speed. Of each figure the best of all rounds counts; a
ratio above 1 means that this checkout is slower. --sections: of the bench, these alone.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

HERE = Path(__file__).parents[1]
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0}
ERASURES = 40

# Runs in both checkouts, so it uses what both have: init, Workspace, train and forget.
ONE_ERASURE = f"""
import csv, json, random, sys, time
from pathlib import Path
from unfit.workspace import Workspace, init
folder, rng = Path(sys.argv[1]), random.Random(0)
with (folder / "people.csv").open("w", newline="") as file:
    out = csv.writer(file)
    out.writerow(["person", *(f"c{{j}}" for j in range(12)), "city", "left"])
    for i in range(20_000):
        x = [rng.gauss(0, 1) for _ in range(12)]
        left = "yes" if sum(x[:6]) + rng.gauss(0, 2) > 0 else "no"
        out.writerow([f"p{{i:05d}}", *(f"{{v:.3f}}" for v in x), f"t{{i % 9}}", left])
init(folder / "people.csv", folder / "ws", label="left", subject="person", random_state=0)
seconds, cpu = [], []
with Workspace(folder / "ws") as ws:
    ws.train()
    for i in range({ERASURES}):
        start, used = time.perf_counter(), time.process_time()
        ws.forget(subjects=[f"p{{i:05d}}"])
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
rest = slice({ERASURES} // 4, None)
median = lambda values: sorted(values[rest])[len(values[rest]) // 2]
print(json.dumps({{"erasure, by the clock": median(seconds), "erasure, processor": median(cpu)}}))
"""


@dataclass(frozen=True)
class Checkout:
    """A checkout with its environment."""

    folder: Path

    def run(self, *command: str) -> str:
        """With bytecode kept, as it is for whoever has installed it, whatever is said here."""
        python = self.folder / ".venv" / "bin" / "python"
        done = subprocess.run(
            [str(python), *command],
            cwd=self.folder,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{self.folder}: {' '.join(command[:4])} failed:\n{done.stderr}")
        return done.stdout


def bench(
    checkout: Checkout, scratch: Path, sections: Sequence[str] = ()
) -> Iterator[tuple[str, float]]:
    """Seconds of each line of `unfit bench --quick` that is a time."""
    found = scratch / "bench.json"
    script = "from unfit.cli import app; app()"
    chosen = [f"--section={name}" for name in sections]
    checkout.run("-c", script, "bench", "--quick", "--output", str(found), *chosen)
    for row in json.loads(found.read_text())["rows"]:
        time = re.fullmatch(r"([\d.,]+) (\w+)", row["ours"].strip())
        if time and time[2] in UNITS:
            name = f"{row['section']}, {row['dataset']}: {row['what']}"
            yield name, float(time[1].replace(",", "")) * UNITS[time[2]]


def erasure(checkout: Checkout, scratch: Path) -> Iterator[tuple[str, float]]:
    """The median of many erasures of one person each, after the first quarter."""
    yield from json.loads(checkout.run("-c", ONE_ERASURE, str(scratch)).splitlines()[-1]).items()


def predictions(checkout: Checkout, scratch: Path) -> Iterator[tuple[str, float]]:
    """Seconds of a prediction over HTTP at full speed, and of a constant answer beside it."""
    found = scratch / "load.json"
    checkout.run("-m", "benchmarks.load", "--quick", "--output", str(found))
    speed = json.loads(found.read_text())["full_speed"]
    yield "prediction at full speed", 1 / speed["service"]
    yield "constant answer (the machine)", 1 / speed["constant"]


KINDS: dict[str, Callable[[Checkout, Path], Iterator[tuple[str, float]]]] = {
    "bench": bench,
    "erasure": erasure,
    "predictions": predictions,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--sections", default="")
    given = parser.parse_args()
    sections = given.sections.split(",") if given.sections else ()
    kinds = KINDS | {"bench": partial(bench, sections=sections)}
    checkouts = [Checkout(given.other.resolve()), Checkout(HERE)]
    times: dict[str, list[float]] = defaultdict(lambda: [float("inf"), float("inf")])
    for number in range(given.rounds):
        for kind in given.only.split(","):
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                with tempfile.TemporaryDirectory() as scratch:
                    for name, seconds in kinds[kind](checkouts[which], Path(scratch)):
                        times[name][which] = min(times[name][which], seconds)
            print(f"round {number + 1}: {kind}", file=sys.stderr, flush=True)
    print(f"| figure, best of {given.rounds} | other | this | ratio |\n|---|--:|--:|--:|")
    for name, (before, now) in times.items():
        print(f"| {name} | {_shown(before)} | {_shown(now)} | {now / before:.3f} |")


def _shown(seconds: float) -> str:
    for unit in ("s", "ms", "us"):
        if seconds >= UNITS[unit]:
            break
    return f"{seconds / UNITS[unit]:.3g} {unit}"


if __name__ == "__main__":
    main()
