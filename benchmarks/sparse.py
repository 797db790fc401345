"""Sparse rows: products against the memory, fits and requests against scikit-learn.

All rows of a data set are trained on, those for testing too. Before anything is timed, threads of
BLAS that the last calculation left spinning come to rest: they would take a core from it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse as scipy_sparse

import unfit
from unfit.core.sparse_rows import make_rows
from unfit.core.sparse_sums import SparseMatrix
from unfit.data.catalog import load

from .competitors import scikit_learn_sparse as theirs
from .measure import best_of, read_bandwidth, rewound
from .sections import Row, seconds

TIMES = 3  # of which the fastest counts, ours and theirs
SMALLER = 100  # times, that what we leave of the gradient is to be smaller than what they leave
USUAL = 0.5  # of its tolerance, that the median request leaves at most
REST = 0.2  # seconds before anything is timed


@dataclass(frozen=True, kw_only=True)
class SparseData:
    """Rows with their labels; requests, each the rows of one `whom`; in how many classes."""

    name: str
    X: scipy_sparse.csr_array
    y: np.ndarray
    requests: Sequence[np.ndarray]
    whom: str
    classes: tuple[int, ...]

    @classmethod
    def catalogued(cls, name: str, requests: int, classes: tuple[int, ...]) -> "SparseData":
        """A data set of the catalogue, with some of its people, or single rows where it has none;
        people are those of the rows for training."""
        found, rng = load(name), np.random.default_rng(5)
        X = scipy_sparse.vstack([found.X, found.X_test], format="csr")
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # scikit-learn
        y = np.concatenate([found.y, found.y_test])
        if found.groups is None:
            of_each = list(rng.choice(len(y), (requests, 1), replace=False))
        else:
            groups = np.asarray(found.groups)
            chosen = rng.choice(np.unique(groups), requests, replace=False)
            of_each = [np.flatnonzero(groups == person) for person in chosen]
        whom = "row" if found.groups is None else "author"
        return cls(name=name, X=X, y=y, requests=of_each, whom=whom, classes=classes)

    def labels(self, classes: int) -> np.ndarray:
        """The classes there are, or whether they are in the upper half of them."""
        return self.y if classes > 2 else (self.y > self.y.max() // 2).astype(np.int64)

    def targets(self, classes: int) -> np.ndarray:
        labels = self.labels(classes)
        return labels[None] if classes == 2 else np.array([labels == c for c in range(classes)])


def sparse(data: SparseData) -> Iterator[Row]:
    """Products against the memory; fits and one person's erasure against scikit-learn."""
    yield from _products(data)
    for classes in data.classes:
        fits = {solver: _fitted(data, classes, solver) for solver in theirs.FROM_SCRATCH}
        yield _fit(data, classes, min(fits.values(), key=lambda one: one.seconds))
        yield _forget(data, classes, [fits[solver] for solver in theirs.WARM])


def _products(data: SparseData) -> Iterator[Row]:
    """Bytes of the rows, counted once, for every second of a product with the Hessians."""
    for classes in data.classes:
        rows = make_rows(data.X, data.labels(classes).astype(np.int32), True)
        matrix, k = SparseMatrix(rows), len(data.targets(classes))
        V = np.random.default_rng(0).standard_normal((k, rows.d))
        curvatures = matrix.evaluate(np.zeros_like(V)).curvatures
        ours, bandwidth = float("inf"), 0.0
        for _ in range(8):  # in turns, as the machine is shared
            once = best_of(
                5, lambda m=matrix, c=curvatures, v=V: m.products(c, np.arange(len(v)), v)
            )
            ours = min(ours, once)
            bandwidth = max(bandwidth, read_bandwidth(256))
        rate = rows.nbytes / ours
        readings = "once" if classes == 2 else "twice"
        yield Row(
            section="sparse",
            dataset=data.name,
            what=f"product of {k} problem{'s' if k > 1 else ''}, rows read {readings}",
            ours=f"{rate / 1e9:.3g} GB/s",
            against="read bandwidth",
            theirs=f"{bandwidth / 1e9:.3g} GB/s",
            ratio=rate / bandwidth,
        )


def _fitted(data: SparseData, classes: int, solver: str) -> theirs.Fitted:
    _rest()
    return theirs.fit(data.X, data.targets(classes), solver)


def _fit(data: SparseData, classes: int, best: theirs.Fitted) -> Row:
    """To the residual of scikit-learn's fastest solver, or below."""
    clf = unfit.LogisticRegression("retrain", tol=best.residual / np.sqrt(len(best.models)))
    ours = best_of(3, lambda: clf.fit(data.X, data.labels(classes)), _rest)
    return Row(
        section="sparse",
        dataset=data.name,
        what=f"fit, {classes} classes, to {best.residual:.0e} per row",
        ours=seconds(ours),
        against=f"scikit-learn, {best.models[0].solver}",
        theirs=seconds(best.seconds),
        ratio=best.seconds / ours,
    )


def _forget(data: SparseData, classes: int, starts: list[theirs.Fitted]) -> Row:
    """Medians over people against those of scikit-learn's warm refits, by the faster solver.

    The tolerance is such that the median of what we leave is a hundredth of that or less.
    With more than two classes a refit takes seconds: of one person in ten, one go on either side.
    """
    every, times = (1, TIMES) if classes == 2 else (10, 1)
    refits = [
        [_refitted(data, classes, rows, start, times) for rows in data.requests[::every]]
        for start in starts
    ]
    best = min(refits, key=lambda found: np.median([one.seconds for one in found]))
    takes = float(np.median([one.seconds for one in best]))
    leaves = float(np.median([one.residual for one in best]))
    targets = data.targets(classes)
    tol = leaves / SMALLER / USUAL / np.sqrt(len(targets))
    clf = unfit.LogisticRegression("retrain", tol=tol)
    clf.fit(data.X, data.labels(classes))
    ours, left = [], []
    for rows in data.requests:
        with rewound(clf, rows) as rewind:
            rewind()
            _rest()
            ours.append(best_of(times, lambda rows=rows: clf.unlearn(rows), rewind))
            left.append(_residual(clf, data.X, targets, rows))
    smaller = leaves / np.median(left)
    return Row(
        section="sparse",
        dataset=data.name,
        what=f"forget one {data.whom}, {classes} classes; residual {smaller:,.0f} times smaller",
        ours=seconds(float(np.median(ours))),
        against=f"warm refit, {best[0].models[0].solver}",
        theirs=seconds(takes),
        ratio=takes / float(np.median(ours)),
    )


def _refitted(
    data: SparseData, classes: int, gone: np.ndarray, start: theirs.Fitted, times: int
) -> theirs.Fitted:
    """Without some rows, from the weights before, by the same solver; the fastest of several."""
    keep = np.ones(len(data.y), bool)
    keep[gone] = False
    X, targets, solver = data.X[keep], data.targets(classes)[:, keep], start.models[0].solver
    _rest()
    again = [theirs.fit(X, targets, solver, start) for _ in range(times)]
    return min(again, key=lambda one: one.seconds)


def _rest() -> None:
    time.sleep(REST)


def _residual(
    clf: unfit.LogisticRegression, X: scipy_sparse.csr_array, targets: np.ndarray, gone: np.ndarray
) -> float:
    """|gradient| per row of the others, of all problems together; by SciPy, in float64."""
    keep = np.ones(X.shape[0])
    keep[gone] = 0.0
    W, n = clf._state.weights, keep.sum()
    slopes = keep * (1 / (1 + np.exp(-(X @ W[:, :-1].T + W[:, -1]).T)) - targets)
    gradients = np.hstack([(X.T @ slopes.T).T, slopes.sum(axis=1, keepdims=True)])
    return float(np.linalg.norm(gradients + clf.l2 * n * W) / n)
