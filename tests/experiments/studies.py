"""A study so small that every figure and table of it is there in seconds, and its extension."""

from pathlib import Path

TINY = """
import numpy as np
from unfit.data.catalog import Entry, Parts, Training, register


def prepare(raw):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    X = rng.standard_normal((500, 6)) + 1.2 * y[:, None] * np.array([1, -1, 1, 0, 0, 0])
    X = np.ascontiguousarray(X / np.linalg.norm(X, axis=1).max(), np.float32)
    y = y.astype(np.int64)
    return Parts(X[:400], y[:400], X[400:], y[400:])


register(Entry(
    name="tiny", title="Tiny", about="two clouds", citation="-", terms="-", file_sets=(),
    prepare=prepare, training=Training(5, 32, 5), intercept=True, volumes=(0.05, 0.1, 0.2),
))
"""


def extension(folder: Path) -> Path:
    path = folder / "tiny.py"
    path.write_text(TINY)
    return path
