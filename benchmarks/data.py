"""What a data set offers to the benchmarks, and the paper's ways of preparing and deleting."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Data:
    """Prepared rows with the paper's training parameters and its large deletion volume.

    published: accuracies the paper's authors measured at that volume, to compare with.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    intercept: bool
    epochs: int
    batch_size: int
    burn_in: int
    large: float
    published: dict[str, float] = field(default_factory=dict)

    def random_rows(self, share: float) -> np.ndarray:
        return np.random.default_rng(5).choice(
            len(self.y), max(1, round(share * len(self.y))), False
        )

    def informed_rows(self, share: float) -> np.ndarray:
        """targeted-informed: rows of class 0, largest norm first."""
        norms = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        rows = np.flatnonzero(self.y == 0)
        return rows[np.argsort(-norms[rows], kind="stable")][: round(share * len(self.y))]


def max_norm(X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One factor, from the training rows, for both."""
    norm = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64).max())
    return (X / norm).astype(np.float32), (X_test / norm).astype(np.float32)


def archive(name: str) -> dict[str, np.ndarray]:
    """A .npz of the folder UNFIT_DATA."""
    folder = os.environ.get("UNFIT_DATA")
    if not folder:
        raise FileNotFoundError(f"set UNFIT_DATA to the folder that holds {name}")
    with np.load(Path(folder) / name, allow_pickle=False) as loaded:
        return dict(loaded)
