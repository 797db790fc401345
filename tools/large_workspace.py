"""Ten million rows through a workspace: time and peak memory of every command.

    python tools/large_workspace.py [ROWS]

Makes a Parquet file of ROWS x 30 numbers of half as many people in a temporary folder (10 million
rows take 1.6 GB, the workspace 2.7 GB), runs init, train, forget of 10,000 people and of one, and
prints a table. Memory is the largest resident set of a command, mapped files included.
"""

import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

COLUMNS, BLOCK, PEOPLE = 30, 500_000, 10_000


def make(path: Path, rows: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(COLUMNS) / 5
    writer = None
    for start in range(0, rows, BLOCK):
        n = min(BLOCK, rows - start)
        X = rng.standard_normal((n, COLUMNS)).astype(np.float32)
        columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
        columns["person"] = rng.integers(0, rows // 2, n)
        columns["label"] = (X @ w + rng.logistic(size=n) > 0).astype(np.int8)
        table = pa.table(columns)
        writer = writer or parquet.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    assert writer is not None
    writer.close()


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds and gigabytes."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - started, usage.ru_maxrss * 1024 / 1e9


def main(rows: int) -> None:
    unfit = str(Path(sys.executable).with_name("unfit"))
    with tempfile.TemporaryDirectory(prefix="unfit-large-") as name:
        folder = Path(name)
        make(folder / "people.parquet", rows)
        who = np.random.default_rng(1).choice(rows // 2, PEOPLE + 1, replace=False)
        (folder / "ids.txt").write_text("".join(f"{i}\n" for i in who[1:]))
        print(
            f"{rows:,} rows x {COLUMNS} columns; {os.cpu_count()} cores, {platform.machine()}, "
            f"Python {platform.python_version()}"
        )
        for what, arguments in (
            ("init", ["init", "people.parquet", "--label", "label", "--subject", "person"]),
            ("train", ["train"]),
            (f"forget {PEOPLE:,} people", ["forget", "--file", "ids.txt"]),
            ("forget one", ["forget", "--subject", str(who[0])]),
            ("predict all rows", ["predict", "people.parquet", "-o", "out.parquet"]),
        ):
            seconds, gigabytes = measured([unfit, *arguments], folder)
            print(f"| {what} | {seconds:.1f} s | {gigabytes:.2f} GB |", flush=True)
        size = sum(p.stat().st_size for p in (folder / "unfit-workspace").rglob("*"))
        print(f"workspace: {size / 1e9:.2f} GB on disk")


if __name__ == "__main__":
    main(int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else 10_000_000)
