"""The comparisons: each takes a data set and yields rows of the table.

A row says what was done, how long we took, against what, how long that took, and the ratio.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy.special import expit

import unfit
from unfit.methods import METHODS, Settings

from .competitors import scikit_learn, torch_loop
from .data import Data
from .measure import best_of, read_bandwidth, rewound, syrk_rate


@dataclass(frozen=True, kw_only=True)
class Row:
    """ratio > 1 means that we are faster (or, against a limit, the share of it that is reached)."""

    section: str
    dataset: str
    what: str
    ours: str
    against: str
    theirs: str
    ratio: float

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def seconds(value: float) -> str:
    scale, unit = (1, "s") if value >= 1 else (1e3, "ms") if value >= 1e-3 else (1e6, "us")
    return f"{value * scale:.3g} {unit}"


def estimator(data: Data, method: str, **changes: object) -> unfit.LogisticRegression:
    settings = {
        "epochs": data.epochs,
        "batch_size": data.batch_size,
        "burn_in": data.burn_in,
        "fit_intercept": data.intercept,
        "random_state": 0,
        **changes,
    }
    return unfit.LogisticRegression(method, **settings)


def requests(data: Data) -> dict[str, np.ndarray]:
    return {
        "1 row": data.random_rows(0)[:1],
        "1 %": data.random_rows(0.01),
        f"{100 * data.large:g} % informed": data.informed_rows(data.large),
    }


def forgetting(data: Data) -> Iterator[Row]:
    """FISHER and INFLUENCE against scikit-learn's refit on the remaining rows."""
    models = {m: estimator(data, m).fit(data.X, data.y) for m in ("fisher", "influence", "retrain")}
    ahead = {}
    for name in ("fisher", "influence"):
        clf = models[name]
        state = replace(clf._state, statistics=None)
        ahead[name] = best_of(2, lambda c=clf, s=state: c._fitted.prepare(s, c._data))
    for what, rows in requests(data).items():
        keep = np.ones(len(data.y), bool)
        keep[rows] = False
        refits = {s: scikit_learn.refit(data, keep, s) for s in scikit_learn.SOLVERS}
        solver = min(refits, key=refits.__getitem__)
        warm = scikit_learn.warm(data, keep)
        for name, clf in models.items():
            times = 3 if name == "retrain" else 7
            with rewound(clf, rows) as rewind:
                ours = best_of(times, lambda clf=clf, rows=rows: clf.unlearn(rows), rewind)
            others = [(f"refit, {solver}", refits[solver]), ("refit, warm", warm)]
            if name in ahead:
                others.append(("its preparation", ahead[name]))
            for label, theirs in others:
                yield Row(
                    section="forgetting",
                    dataset=data.name,
                    what=f"{name}, {what}",
                    ours=seconds(ours),
                    against=label,
                    theirs=seconds(theirs),
                    ratio=theirs / ours,
                )


_REST = 0.5  # seconds before a stream of ours, for threads of BLAS to come to rest
SHARES = {"1 row": 0.0, "0.1 %": 0.001, "1 %": 0.01}
_SEVERAL = 3  # classes, from which a stream is timed once: scikit-learn takes minutes


def stream(
    data: Data, requests: int = 10, rounds: int = 3, shares: Sequence[str] = tuple(SHARES)
) -> Iterator[Row]:
    """Ten requests in a row, end to end: FISHER's `unlearn`, which makes new sums when that is due,
    against lbfgs refitted after each from the weights before it. One stream after the other, best
    of three, or one where there are several classes; residuals are the lengths of the gradient at
    the end."""
    fitted, refitted = estimator(data, "fisher").fit(data.X, data.y), scikit_learn.Warm(data)
    rounds = 1 if len(fitted.classes_) >= _SEVERAL else rounds
    for what in shares:
        size = max(1, int(SHARES[what] * len(data.y)))
        order = np.random.default_rng(7).permutation(len(data.y))[: requests * size]
        parts = np.split(order, requests)
        unlearning = theirs = np.inf
        with rewound(fitted, order):  # once off the clock: the first call loads its kernels
            fitted.unlearn(parts[0]).unlearn(parts[1])
        for _ in range(rounds):
            with rewound(fitted, order):
                time.sleep(_REST)
                unlearning = min(unlearning, sum(_unlearned(fitted, gone) for gone in parts))
                ours_left = residual(fitted, data, order)
            theirs = min(theirs, refitted.stream(parts))
        theirs_left = refitted.residual(order)
        yield Row(
            section="stream",
            dataset=data.name,
            what=f"{requests} requests of {what}",
            ours=seconds(unlearning),
            against=f"{requests} refits, warm, residual {theirs_left / ours_left:,.0f} times ours",
            theirs=seconds(theirs),
            ratio=theirs / unlearning,
        )


def _unlearned(clf: unfit.LogisticRegression, rows: np.ndarray) -> float:
    return best_of(1, lambda: clf.unlearn(rows))


def residual(clf: unfit.LogisticRegression, data: Data, gone: np.ndarray) -> float:
    """The length of the gradient of what remains, one-vs-rest, in float64."""
    X, y = np.delete(data.X, gone, axis=0).astype(np.float64), np.delete(data.y, gone)
    scores = X @ clf.coef_.T + clf.intercept_
    slopes = expit(scores) - scikit_learn.targets(y, clf.classes_)
    ridge = clf.l2 * len(y)
    gradient = slopes.T @ X + ridge * clf.coef_
    of_intercept = slopes.sum(axis=0) + ridge * clf.intercept_ if data.intercept else 0.0
    return float(np.hypot(np.linalg.norm(gradient), np.linalg.norm(of_intercept)))


def accuracy(data: Data) -> Iterator[Row]:
    """Accuracy after the large deletion, trained by SGD as in the paper, against its figures."""
    if not data.published:
        return
    rows = data.informed_rows(data.large)
    keep = np.delete(np.arange(len(data.y)), rows)
    retrained = estimator(data, "retrain", solver="sgd", random_state=1)
    retrained.fit(data.X[keep], data.y[keep])
    found = {"retrained, test rows": retrained.score(data.X_test, data.y_test)}
    for name in ("fisher", "influence"):
        clf = estimator(data, name, solver="sgd").fit(data.X, data.y)
        found["initial, test rows"] = clf.score(data.X_test, data.y_test)
        clf.unlearn(rows)
        found[f"{name}, test rows"] = clf.score(data.X_test, data.y_test)
        found[f"{name}, deleted rows"] = clf.score(data.X[rows], data.y[rows])
    for what, published in data.published.items():
        yield Row(
            section="accuracy",
            dataset=data.name,
            what=what,
            ours=f"{found[what]:.4f}",
            against="published",
            theirs=f"{published:.4f}",
            ratio=found[what] / published,
        )


def noise(data: Data) -> Iterator[Row]:
    """FISHER's noise against its step without noise."""
    plain, noisy = (estimator(data, "fisher", sigma=s).fit(data.X, data.y) for s in (0.0, 1.0))
    for what, rows in requests(data).items():
        taken = []
        for clf in (plain, noisy):
            with rewound(clf, rows) as rewind:
                taken.append(best_of(7, lambda clf=clf, rows=rows: clf.unlearn(rows), rewind))
        yield Row(
            section="noise",
            dataset=data.name,
            what=f"fisher with noise, {what}",
            ours=seconds(taken[1]),
            against="without noise",
            theirs=seconds(taken[0]),
            ratio=taken[0] / taken[1],
        )


def training(data: Data, work: float = 5e7) -> Iterator[Row]:
    """Our SGD against PyTorch's loop and against the memory; our Newton against scikit-learn."""
    n, p = data.X.shape
    epochs = max(2, min(data.epochs, int(work / (n * p))))
    method = METHODS["fisher"](Settings(epochs=epochs, batch_size=data.batch_size, solver="sgd"))
    engine = estimator(data, "retrain", solver="sgd", epochs=1).fit(data.X, data.y)._data
    rng = np.random.default_rng(0)
    layout = engine.lay_out(rng.permutation(n).astype(np.int32))
    plan, start = method.plan(rng, n), np.zeros((1, engine.d))
    ours, bandwidth = float("inf"), 0.0
    for _ in range(12):  # in turns, as the machine is shared
        ours = min(ours, best_of(3, lambda: engine.sgd(layout, plan, start)) / epochs)
        bandwidth = max(bandwidth, read_bandwidth())
    rate = data.X.nbytes / ours
    yield Row(
        section="training",
        dataset=data.name,
        what="SGD epoch",
        ours=f"{rate / 1e9:.3g} GB/s",
        against="read bandwidth",
        theirs=f"{bandwidth / 1e9:.3g} GB/s",
        ratio=rate / bandwidth,
    )
    if torch_loop.available():
        steps = max(20, int(1e8 / (data.batch_size * p)))
        for loader, label in ((False, "PyTorch, randperm"), (True, "PyTorch, DataLoader")):
            theirs = best_loop(data, steps if not loader else max(5, steps // 8), loader)
            yield Row(
                section="training",
                dataset=data.name,
                what="SGD epoch",
                ours=seconds(ours),
                against=label,
                theirs=seconds(theirs),
                ratio=theirs / ours,
            )
    engine.drop_layout()
    newton = best_of(2, lambda: estimator(data, "retrain").fit(data.X, data.y))
    keep = np.ones(n, bool)
    theirs = min(scikit_learn.refit(data, keep, s) for s in scikit_learn.SOLVERS)
    yield Row(
        section="training",
        dataset=data.name,
        what="Newton to 1e-8",
        ours=seconds(newton),
        against="scikit-learn to 1e-6",
        theirs=seconds(theirs),
        ratio=theirs / newton,
    )
    W = np.zeros((1, engine.d))
    hessian = n * engine.d**2 / best_of(3, lambda: engine.hessian_sum(W))
    peak = syrk_rate(engine.d, min(8192, n))
    yield Row(
        section="training",
        dataset=data.name,
        what="Hessian sum",
        ours=f"{hessian / 1e9:.3g} Gflop/s",
        against="SYRK rate",
        theirs=f"{peak / 1e9:.3g} Gflop/s",
        ratio=hessian / peak,
    )


def best_loop(data: Data, steps: int, loader: bool) -> float:
    return min(torch_loop.seconds_per_epoch(data, steps, loader) for _ in range(3))


def deltagrad(data: Data) -> Iterator[Row]:
    """DELTAGRAD (T0 = 50) against our own SGD on the remaining rows, and how close it comes."""
    clf = estimator(data, "deltagrad").fit(data.X, data.y)
    engine, state, method = clf._data, clf._state, clf._fitted
    exact = METHODS["deltagrad"](replace(method.settings, period=1))
    sgd = METHODS["retrain"](replace(method.settings, solver="sgd"))
    rng = np.random.default_rng(1)
    for what, rows in requests(data).items():
        if what == "1 row":
            continue
        retrain = ours = float("inf")
        results: list[np.ndarray] = []
        ready = [state]

        def prepare(ready: list = ready) -> None:
            ready[0] = method.prepare(replace(state, spare=None), engine)

        def unlearn(rows: np.ndarray = rows, ready: list = ready, out: list = results) -> None:
            out.append(method.unlearn(ready[0], engine, rows, rng).weights)

        def again(rows: np.ndarray = rows) -> None:
            sgd.optimum(engine, rng, mask=engine.without(rows))

        for _ in range(4):  # in turns, as the machine is shared
            retrain = min(retrain, best_of(1, again))
            engine.lay_out(state.run.row_of)
            ours = min(ours, best_of(1, unlearn, prepare))
        goal = exact.unlearn(state, engine, rows, rng).weights
        gap = np.linalg.norm(results[-1] - goal) / np.linalg.norm(state.weights - goal)
        yield Row(
            section="deltagrad",
            dataset=data.name,
            what=f"{what}, |u-w*|/|w-w*| = {gap:.3f}",
            ours=seconds(ours),
            against="SGD on the rest",
            theirs=seconds(retrain),
            ratio=retrain / ours,
        )


def scaling() -> Iterator[Row]:
    """Forgetting 100 rows of 50 columns, from 100,000 rows and from a million."""
    taken = {100_000: float("inf"), 1_000_000: float("inf")}
    models = {}
    for n in taken:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, 50), np.float32) / np.float32(10)
        y = X[:, 0] + 0.3 * rng.standard_normal(n, np.float32) > 0
        rows = rng.choice(n, 100, replace=False)
        models[n] = unfit.LogisticRegression(random_state=0).fit(X, y), rows
    for _ in range(20):  # in turns: the machine may be busier at one time than at another
        for n, (clf, rows) in models.items():
            with rewound(clf, rows) as rewind:
                best = best_of(5, lambda clf=clf, rows=rows: clf.unlearn(rows), rewind)
            taken[n] = min(taken[n], best)
    yield Row(
        section="scaling",
        dataset="synthetic",
        what="fisher, 100 rows of 1,000,000",
        ours=seconds(taken[1_000_000]),
        against="of 100,000",
        theirs=seconds(taken[100_000]),
        ratio=taken[100_000] / taken[1_000_000],
    )


PER_DATASET: dict[str, Callable[[Data], Iterator[Row]]] = {
    "forgetting": forgetting,
    "stream": stream,
    "accuracy": accuracy,
    "noise": noise,
    "training": training,
    "deltagrad": deltagrad,
}
