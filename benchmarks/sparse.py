"""Sparse rows: 20 Newsgroups as tf-idf, every row of length 1, in two classes and in twenty.

All posts are trained on; authors are those of the part before the split by date.
"""

from collections.abc import Iterator
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

AUTHORS = 100
TIMES = 3  # of which the fastest counts, ours and theirs
TOL = 4e-10  # of the gradient per row, after an author left: a hundredth of what newton-cg leaves
_NAME = "newsgroups"


@dataclass(frozen=True)
class Posts:
    """Rows, labels, and the rows of each author."""

    X: scipy_sparse.csr_array
    y: np.ndarray
    of_author: list[np.ndarray]

    @classmethod
    def load(cls, authors: int) -> "Posts":
        found = load(_NAME)
        X = scipy_sparse.vstack([found.X, found.X_test], format="csr")
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # scikit-learn
        y = np.concatenate([found.y, found.y_test])
        assert found.groups is not None
        groups = np.asarray(found.groups)
        chosen = np.random.default_rng(5).choice(np.unique(groups), authors, replace=False)
        return cls(X, y, [np.flatnonzero(groups == author) for author in chosen])

    def labels(self, classes: int) -> np.ndarray:
        """The newsgroups, or whether they are in the upper half of them."""
        return self.y if classes > 2 else (self.y > self.y.max() // 2).astype(np.int64)

    def targets(self, classes: int) -> np.ndarray:
        labels = self.labels(classes)
        return labels[None] if classes == 2 else np.array([labels == c for c in range(classes)])


def sparse(authors: int = AUTHORS) -> Iterator[Row]:
    """Products against the memory; fits and one author's erasure against scikit-learn."""
    yield from compared(Posts.load(authors))


def compared(posts: Posts, classes: tuple[int, ...] = (2, 20)) -> Iterator[Row]:
    yield from _products(posts, classes)
    for count in classes:
        yield _fit(posts, count)
        yield _forget(posts, count)


def _products(posts: Posts, counts: tuple[int, ...]) -> Iterator[Row]:
    """Bytes of the rows, counted once, for every second of a product with the Hessians."""
    for classes in counts:
        rows = make_rows(posts.X, posts.labels(classes).astype(np.int32), True)
        matrix, k = SparseMatrix(rows), len(posts.targets(classes))
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
            dataset=_NAME,
            what=f"product of {k} problem{'s' if k > 1 else ''}, rows read {readings}",
            ours=f"{rate / 1e9:.3g} GB/s",
            against="read bandwidth",
            theirs=f"{bandwidth / 1e9:.3g} GB/s",
            ratio=rate / bandwidth,
        )


def _fit(posts: Posts, classes: int) -> Row:
    """To the residual of scikit-learn's fastest solver, or below."""
    found = [theirs.fit(posts.X, posts.targets(classes), s) for s in theirs.FROM_SCRATCH]
    best = min(found, key=lambda one: one.seconds)
    clf = unfit.LogisticRegression("retrain", tol=best.residual / np.sqrt(len(best.models)))
    ours = best_of(3, lambda: clf.fit(posts.X, posts.labels(classes)))
    return Row(
        section="sparse",
        dataset=_NAME,
        what=f"fit, {classes} classes, to {best.residual:.0e} per row",
        ours=seconds(ours),
        against=f"scikit-learn, {best.models[0].solver}",
        theirs=seconds(best.seconds),
        ratio=best.seconds / ours,
    )


def _forget(posts: Posts, classes: int) -> Row:
    """Medians over authors, in turns with scikit-learn's warm refit; the faster solver counts.

    With twenty classes, of one author in five, since a refit takes seconds.
    """
    labels, targets = posts.labels(classes), posts.targets(classes)
    clf = unfit.LogisticRegression("retrain", tol=TOL).fit(posts.X, labels)
    every = 1 if classes == 2 else 5
    starts = {s: theirs.fit(posts.X, targets, s) for s in theirs.WARM}
    ours, left = [], []
    refits: dict[str, list[theirs.Fitted]] = {s: [] for s in theirs.WARM}
    for at, rows in enumerate(posts.of_author):
        with rewound(clf, rows) as rewind:
            ours.append(best_of(TIMES, lambda rows=rows: clf.unlearn(rows), rewind))
            left.append(_residual(clf, posts.X, targets, rows))
        if at % every:
            continue
        keep = np.ones(len(labels), bool)
        keep[rows] = False
        X = posts.X[keep]
        for solver, start in starts.items():
            again = [theirs.fit(X, targets[:, keep], solver, start) for _ in range(TIMES)]
            refits[solver].append(min(again, key=lambda one: one.seconds))
    times = {s: float(np.median([one.seconds for one in found])) for s, found in refits.items()}
    solver = min(times, key=times.__getitem__)
    smaller = np.median([one.residual for one in refits[solver]]) / np.median(left)
    return Row(
        section="sparse",
        dataset=_NAME,
        what=f"forget one author, {classes} classes; residual {smaller:,.0f} times smaller",
        ours=seconds(float(np.median(ours))),
        against=f"warm refit, {solver}",
        theirs=seconds(times[solver]),
        ratio=times[solver] / float(np.median(ours)),
    )


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
