"""Keep the times of an earlier study where what is timed has not changed.

    python tools/kept_times.py docs/reproduction/speed-ups.csv FOLDER [--without higgs]

writes FOLDER/kept.journal, which a study in FOLDER takes for finished runs; a table says of them
that they were kept. Times that the study has measured itself are left as they are.
"""

import argparse
import csv
from pathlib import Path

from unfit.data.catalog import CATALOG
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.run import Run, append
from unfit.experiments.runs import Runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without", nargs="*", default=[])
    given = parser.parse_args()
    known = Runs(given.folder)
    by_title = {entry.title: entry for entry in CATALOG.values()}
    with given.table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    kept = 0
    for row in rows:
        entry = by_title[row["data set"].split(",")[0]]
        contender = next(c for c in CONTENDERS.values() if c.label == row["method"])
        tau = next(t for t in contender.taus if t.label == row["tau"])
        assert entry.volumes is not None
        run = Run(
            "timing",
            entry.name,
            "targeted-informed",
            entry.volumes[2],
            contender.name,
            tau.name,
            1.0,
        )
        if entry.name in given.without or run in known:
            continue
        append(
            given.folder / "kept.journal",
            run,
            {
                "seconds_unlearn": float(row["unlearn, ms"]) / 1e3,
                "seconds_prepare": float(row["prepare, ms"]) / 1e3,
                "seconds_retrain_sgd": float(row["SGD, ms"]) / 1e3,
                "seconds_retrain_exact": float(row["exact, ms"]) / 1e3,
                "seconds_spent": 0.0,
                "kept": True,
            },
        )
        kept += 1
    print(f"{kept} times kept")


if __name__ == "__main__":
    main()
