"""Seconds of a pass against rows and columns for the three engines, as docs/scaling.md draws them.

    python tools/draw_engines.py measure FILE      engines `cpu` and `dask` (two workers), here
    python tools/draw_engines.py draw FILE         docs/engines.png, with the GPU's figures

The GPU's are read from docs/scaling-gpu.md, where `tools/gpu_bench.py --only sizes` has left them.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from cluster_study import cluster, seconds

from unfit.core.losses import LOGISTIC
from unfit.core.objective import Rows
from unfit.engines import Dask
from unfit.engines.base import Engine, make_engine

COLUMNS, ROWS = 50, 400_000  # as in tools/gpu_bench.py
SIZES = (250_000, 1_000_000, 4_000_000)  # rows of 50 columns
WIDTHS = (50, 200, 800, 2_000)  # columns of 400,000 rows
HESSIANS_UP_TO = 800  # columns: beyond, one takes half a minute on two cores
GPU_PAGE = Path(__file__).parent.parent / "docs" / "scaling-gpu.md"
OF_GPU = re.compile(r"^\| ([\d,]+) x ([\d,]+) \| ([\d.]+) ms \| ([\d.]+) ms \|", re.MULTILINE)
STYLES = {"gradient": "-", "hessian": "--"}
COLORS = {"cpu": "tab:blue", "dask": "tab:orange", "torch": "tab:green"}
TITLES = {"torch": "torch, H200"}
NAMES = {"gradient": "values and gradients", "hessian": "Hessian"}


def made_up(n: int, columns: int) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, columns), np.float32) / np.float32(columns**0.5)
    return Rows(X, (X[:, 0] > 0).astype(np.int32), True, LOGISTIC)


def passes(engines: dict[str, Engine], columns: int) -> dict[str, dict[str, float]]:
    """Seconds by engine and kind: medians of five, engines in turn."""
    found: dict[str, dict[str, float]] = {name: {} for name in engines}
    for kind in ("gradient", "hessian"):
        if kind == "hessian" and columns > HESSIANS_UP_TO:
            continue

        def one(data: Engine, kind: str = kind) -> Any:
            W = np.full((data.k, data.d), 0.01)
            return data.gradient_sum(W) if kind == "gradient" else data.hessian_sum(W)

        taken = seconds([lambda data=data: one(data) for data in engines.values()])
        for name, value in zip(engines, taken, strict=True):
            found[name][kind] = value
    return found


def measure() -> list[dict[str, Any]]:
    shapes = [(n, COLUMNS) for n in SIZES] + [(ROWS, width) for width in WIDTHS]
    found = []
    with cluster() as running:
        for n, columns in shapes:
            rows = made_up(n, columns)
            engines = {
                "cpu": make_engine(rows, 2, name="cpu"),
                "dask": Dask(running.scheduler_address)(rows, 2),
            }
            found.append({"n": n, "columns": columns, "seconds": passes(engines, columns)})
    return found


def of_gpu() -> list[dict[str, Any]]:
    """The same of the engine `torch`, as tools/gpu_bench.py has measured it."""
    found = []
    for match in OF_GPU.findall(GPU_PAGE.read_text()):
        n, columns = (int(number.replace(",", "")) for number in match[:2])
        taken = dict(zip(STYLES, (float(number) / 1e3 for number in match[2:]), strict=True))
        found.append({"n": n, "columns": columns, "seconds": {"torch": taken}})
    return found


def draw(found: list[dict[str, Any]], to: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(9.5, 3.8), layout="constrained", sharey=True
    )
    found = found + of_gpu()
    sides = (
        (left, "n", [one for one in found if one["columns"] == COLUMNS and one["n"] != ROWS]),
        (right, "columns", [one for one in found if one["n"] == ROWS]),
    )
    for axes, along, some in sides:
        for name, color in COLORS.items():
            for kind, style in STYLES.items():
                there = [one for one in some if kind in one["seconds"].get(name, {})]
                x = [one[along] for one in there]
                y = [one["seconds"][name][kind] for one in there]
                label = f"{TITLES.get(name, name)}: {NAMES[kind]}"
                axes.loglog(x, y, style, marker="o", markersize=4, color=color, label=label)
    left.set_xlabel(f"rows, of {COLUMNS} columns")
    right.set_xlabel(f"columns, of {ROWS:,} rows")
    left.set_ylabel("seconds of a pass")
    right.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for axes, along, some in sides:
        at = sorted({one[along] for one in some})
        axes.set_xticks(at, [f"{value:,}" for value in at])
        axes.minorticks_off()
        axes.grid(alpha=0.3, which="both", linewidth=0.5)
    figure.savefig(to, dpi=150)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("what", choices=["measure", "draw"])
    asked.add_argument("file", type=Path)
    asked.add_argument("--picture", type=Path, default=Path("docs/engines.png"))
    given = asked.parse_args()
    if given.what == "measure":
        given.file.write_text(json.dumps(measure(), indent=1))
        print(given.file.read_text())
    else:
        draw(json.loads(given.file.read_text()), given.picture)


if __name__ == "__main__":
    main()
