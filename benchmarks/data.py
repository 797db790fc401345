"""What a data set offers to the benchmarks, and the paper's ways of preparing and deleting."""

from dataclasses import dataclass, field

import numpy as np

from unfit.data.catalog import load


@dataclass(frozen=True, kw_only=True)
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
    target: int = 0  # the class whose rows informed deletions take
    published: dict[str, float] = field(default_factory=dict)

    def random_rows(self, share: float) -> np.ndarray:
        return np.random.default_rng(5).choice(
            len(self.y), max(1, round(share * len(self.y))), False
        )

    def informed_rows(self, share: float) -> np.ndarray:
        """targeted-informed: rows of the target class, largest norm first."""
        norms = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        rows = np.flatnonzero(self.y == self.target)
        return rows[np.argsort(-norms[rows], kind="stable")][: round(share * len(self.y))]


def max_norm(X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One factor, from the training rows, for both."""
    norm = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64).max())
    return (X / norm).astype(np.float32), (X_test / norm).astype(np.float32)


def catalogued(name: str, published: dict[str, float] | None = None, target: int = 0) -> Data:
    """A data set of the catalogue, in memory as a caller's rows would be."""
    found = load(name)
    entry, training = found.entry, found.training  # on a subset, as many steps as on the whole
    assert entry.volumes is not None
    return Data(
        name=name,
        X=np.array(found.X),
        y=np.array(found.y),
        X_test=np.array(found.X_test),
        y_test=np.array(found.y_test),
        intercept=entry.intercept,
        epochs=training.epochs,
        batch_size=training.batch_size,
        burn_in=training.burn_in,
        large=entry.volumes[2],
        target=target,
        published=published or {},
    )
