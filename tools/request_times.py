"""Milliseconds of one request right after `fit`, here and in another checkout, by turns.

    UNFIT_DATA=DIR python tools/request_times.py OTHER [--datasets mnist-b,cifar2,covtype]
                                                 [--rounds 2] [--calls 28]

OTHER is a folder with a checkout and its .venv (`make demo` there makes one). A request is one row,
1 % of the rows, and the large volume of the paper (the longest rows), answered by FISHER and by
INFLUENCE; the model is put back before each. A process of each checkout after the other, so many
rounds; of all calls the best counts. A ratio above 1 means that this checkout is slower.
"""

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parents[1]

# Runs in both checkouts, so it uses what both have.
REQUESTS = """
import json, sys, time
from types import SimpleNamespace
import numpy as np
import unfit
from unfit.data import catalog

name, calls = sys.argv[1], int(sys.argv[2])
data = catalog.load(name)
X, y, entry = np.asarray(data.X), np.asarray(data.y), data.entry
n, found = len(y), {}
lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
longest = np.argsort(-lengths, kind="stable")
order = np.random.default_rng(0).permutation(n)
large = entry.volumes[-1]
requests = {
    "1 row": order[:1],
    "1 %": order[: n // 100],
    f"{100 * large:g} % informed": longest[: int(large * n)],
}
for method in ("fisher", "influence"):
    clf = unfit.LogisticRegression(method, fit_intercept=entry.intercept, random_state=0).fit(X, y)
    clf.prepare()
    state, counts, engine = clf._state, clf._class_counts, clf._data
    remaining = engine.n_remaining
    for what, rows in requests.items():
        best = np.inf
        for _ in range(calls):
            start = time.perf_counter()
            clf.unlearn(rows)
            best = min(best, time.perf_counter() - start)
            engine.remaining[rows] = True
            engine.n_remaining = remaining
            clf._class_counts = counts
            clf._activate(state)
        found[f"{name}: {method}, {what}"] = best
print(json.dumps(found))
"""


def times(checkout: Path, dataset: str, calls: int) -> dict[str, float]:
    python = checkout / ".venv" / "bin" / "python"
    command = [str(python), "-W", "ignore", "-c", REQUESTS, dataset, str(calls)]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{checkout}: {dataset} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--datasets", default="mnist-b,cifar2,covtype")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--calls", type=int, default=28)
    given = parser.parse_args(arguments)
    checkouts = given.other.resolve(), HERE
    best: dict[str, list[float]] = defaultdict(lambda: [float("inf"), float("inf")])
    for dataset in given.datasets.split(","):
        for number in range(given.rounds):
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                for what, seconds in times(checkouts[which], dataset, given.calls).items():
                    best[what][which] = min(best[what][which], seconds)
        print(f"{dataset} is done", file=sys.stderr, flush=True)
    print("| milliseconds | other | this | ratio |\n|---|--:|--:|--:|")
    for what, (before, now) in best.items():
        print(f"| {what} | {1e3 * before:.3g} | {1e3 * now:.3g} | {now / before:.2f} |")


if __name__ == "__main__":
    main()
