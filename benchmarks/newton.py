"""Optima and mini-batches: fitting against scikit-learn's solvers at one residual, and a request
in eight mini-batches against SGD on the rest."""

from collections.abc import Iterator

import numpy as np

from unfit.methods import METHODS, Settings, State

from .competitors import to_residual
from .data import Data
from .measure import best_of, rewound
from .sections import Row, estimator, requests, seconds

RESIDUAL = 1e-6  # |gradient sum| / n, to which both sides are driven
SHARES = (1, 8)  # mini-batches of a request


def fit(data: Data) -> Iterator[Row]:
    """Our fit and RETRAIN against scikit-learn's solvers, all to the same residual."""
    clf = estimator(data, "retrain", tol=RESIDUAL)
    ours = best_of(3, lambda: clf.fit(data.X, data.y))
    every = np.ones(len(data.y), bool)
    for solver, theirs in to_residual.fits(data, every, RESIDUAL):
        yield _row(data, "fit to 1e-6", ours, solver, theirs)
    for what, rows in requests(data).items():
        with rewound(clf, rows) as rewind:
            taken = best_of(5, lambda rows=rows: clf.unlearn(rows), rewind)
        keep = every.copy()
        keep[rows] = False
        start = clf._state.centre
        for solver, theirs in to_residual.fits(data, keep, RESIDUAL, start):
            yield _row(data, f"retrain to 1e-6, {what}", taken, f"{solver}, warm", theirs)


def batches(data: Data) -> Iterator[Row]:
    """FISHER and INFLUENCE in one and in eight mini-batches against SGD on the remaining rows."""
    settings = {"epochs": data.epochs, "batch_size": data.batch_size}
    sgd = METHODS["retrain"](Settings(solver="sgd", **settings))
    engine = estimator(data, "retrain", tol=1e-2).fit(data.X, data.y)._data
    rng, rows = np.random.default_rng(0), data.informed_rows(data.large)
    start, rest = sgd.optimum(engine, rng), engine.without(rows)
    for name in ("fisher", "influence"):
        state = METHODS[name](Settings()).prepare(State(name, start, len(data.y)), engine)
        for share in SHARES:
            method = METHODS[name](Settings(deletion_batch_size=-(-len(rows) // share)))
            ours = theirs = float("inf")
            for _ in range(3):  # in turns, as the machine is shared
                ours = min(
                    ours, best_of(1, lambda m=method, s=state: m.unlearn(s, engine, rows, rng))
                )
                theirs = min(theirs, best_of(1, lambda: sgd.optimum(engine, rng, mask=rest)))
            what = f"{name}, {100 * data.large:g} % informed, m' = m/{share}"
            yield _row(data, what, ours, "SGD on the rest", theirs, section="batches")


def _row(
    data: Data, what: str, ours: float, against: str, theirs: float, *, section: str = "fit"
) -> Row:
    return Row(
        section=section,
        dataset=data.name,
        what=what,
        ours=seconds(ours),
        against=against,
        theirs=seconds(theirs),
        ratio=theirs / ours,
    )
