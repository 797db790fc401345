"""Memory and start-up, measured in processes of their own."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .data import Data
from .sections import Row, seconds

_PEAK = """
import re, sys
import numpy as np, unfit
X, y = np.load(sys.argv[1]), np.load(sys.argv[2])
clf = unfit.LogisticRegression(sys.argv[3], epochs=2).fit(X, y)
clf.unlearn(np.arange(len(y) // 100))
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(1024 * int(peak[1]))
"""
_BASE = "import numpy, scipy.linalg, sklearn.base, numba"


def memory(data: Data) -> Iterator[Row]:
    """Peak memory of a process that fits and unlearns, against 2.5 x its data + 300 MB."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("X.npy", "y.npy")]
        for path, values in zip(paths, (data.X, data.y), strict=True):
            np.save(path, values)
        for method in ("fisher", "deltagrad"):
            peak = float(_run(_PEAK, *paths, method))
            allowed = 2.5 * data.X.nbytes + 300e6
            yield Row(
                section="memory",
                dataset=data.name,
                what=f"{method}, fit and unlearn",
                ours=f"{peak / 1e6:.0f} MB",
                against="2.5 x float32 data + 300 MB",
                theirs=f"{allowed / 1e6:.0f} MB",
                ratio=allowed / peak,
            )


def start_up() -> Iterator[Row]:
    """Seconds that `import unfit` takes beyond the libraries it stands on."""
    clock = f"{_BASE}, time; s = time.perf_counter(); import unfit; print(time.perf_counter() - s)"
    ours = min(float(_run(clock)) for _ in range(5))
    yield Row(
        section="start-up",
        dataset="-",
        what="import unfit, beyond its libraries",
        ours=seconds(ours),
        against="allowance",
        theirs="0.3 s",
        ratio=0.3 / ours,
    )


def _run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
