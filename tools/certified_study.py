"""What a certificate costs: time, passes over the rows, accuracy, and noise.

    UNFIT_DATA=... python tools/certified_study.py [speed] [accuracy] [--datasets a,b] [--json FILE]
                                                   [--quick]

speed     `unlearn` with a certificate beside `unlearn` without one, both prepared in the same way,
          by turns and from one and the same model: single rows, a thousandth, a hundredth, and the
          paper's large volume, there beside exact retraining from the weights at hand. A
          deletion counts with the best of three times.
accuracy  what the noise of a certified release takes from the accuracy on test rows, the mean of 20
          releases; and the sigma by which INFLUENCE as published would reach the same mu.

epsilon 1, delta 1e-5, noise 1e-3, l2 1e-4, FISHER. --quick: digits of scikit-learn, no data folder.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

import unfit
from unfit.certify.accountant import mu_of
from unfit.core.metrics import accuracy
from unfit.core.predictions import predict
from unfit.data import catalog
from unfit.data.catalog import Prepared
from unfit.experiments.deletions import LAWS, count_of, first, order_of
from unfit.experiments.machine import machine
from unfit.fitted_steps import FittedStepWarning

EPSILON, DELTA, NOISE, L2 = 1.0, 1e-5, 1e-3, 1e-4
FAST, ACCURATE = ("covtype", "mnist-b", "cifar2"), ("mnist-b", "cifar2", "covtype", "diabetes130")
BEST_OF = 3
RELEASES = 20


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Deletions of one size. Seconds are medians; passes are over the rows, one each."""

    dataset: str
    rows: str
    deletions: int
    plain: float
    certified: float
    ratio: float  # the median of the ratios
    passes_plain: list[float]
    passes: list[float]
    bounds: dict[str, int]
    retrained: float | None = None


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Accuracies in percent, and what INFLUENCE would need. sigma: by the rows that leave."""

    dataset: str
    centre: float
    released: float
    lost: float
    worst: float
    sigma: dict[str, float]


class Subject:
    """A data set with a fitted model of each kind."""

    def __init__(self, name: str, kinds: Sequence[str]) -> None:
        self.name, self.data = name, catalog.load(name)
        self.X, self.y = np.asarray(self.data.X), np.asarray(self.data.y)
        self.models = {kind: self._fitted(kind) for kind in kinds}

    def _fitted(self, kind: str) -> unfit.LogisticRegression:
        method = kind if kind in ("retrain", "influence") else "fisher"
        promise = {"epsilon": EPSILON, "delta": DELTA, "noise": NOISE}
        model = unfit.LogisticRegression(
            method,
            l2=L2,
            fit_intercept=self.data.entry.intercept,
            **(promise if kind == "certified" else {}),
        )
        return model.fit(self.X, self.y)

    @contextmanager
    def _restored(self, kind: str) -> Iterator[unfit.LogisticRegression]:
        """The prepared model, as it was before and after."""
        model = self.models[kind]
        before, data = dict(model.__dict__), model._data
        model._data = data.shared()
        try:
            yield model
        finally:
            model.__dict__ = before

    def once(self, kind: str, rows: np.ndarray) -> tuple[float, float, str]:
        """Seconds of one `unlearn`, passes over the rows, and the bound that ended it."""
        with self._restored(kind) as model:
            data = model._data
            start = time.perf_counter()
            model.unlearn(rows)
            seconds = time.perf_counter() - start
            bound = "" if model.certificate_ is None else model.certificate_.bound
            return seconds, data.rows_read / len(self.y), bound

    def timed(self, label: str, deletions: Sequence[np.ndarray], *, exact: bool = False) -> Timed:
        kinds = ("plain", "certified", *(["retrain"] if exact else []))
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        passes: dict[str, list[float]] = {kind: [] for kind in kinds}
        bounds: dict[str, int] = {}
        for rows in deletions:
            tries = [{kind: self.once(kind, rows) for kind in kinds} for _ in range(BEST_OF)]
            for kind in kinds:
                seconds[kind].append(min(found[kind][0] for found in tries))
                passes[kind].append(round(tries[0][kind][1], 2))
            bound = tries[0]["certified"][2]
            bounds[bound] = bounds.get(bound, 0) + 1
        pairs = zip(seconds["certified"], seconds["plain"], strict=True)
        return Timed(
            dataset=self.data.entry.title,
            rows=label,
            deletions=len(deletions),
            plain=median(seconds["plain"]),
            certified=median(seconds["certified"]),
            ratio=median(ours / theirs for ours, theirs in pairs),
            passes_plain=sorted(passes["plain"]),
            passes=sorted(passes["certified"]),
            bounds=bounds,
            retrained=median(seconds["retrain"]) if exact else None,
        )

    def random_rows(self, count: int, seed: int) -> np.ndarray:
        return np.random.default_rng([seed, count]).choice(len(self.y), count, replace=False)

    def by_law(self, law: str, fraction: float) -> np.ndarray:
        """The rows that a law of the paper deletes."""
        entry, rng = self.data.entry, np.random.default_rng(0)
        norms = np.linalg.norm(self.X, axis=1)
        order = order_of(law, self.models["plain"]._data.codes, norms, entry.target, rng)
        return first(order, count_of(fraction, len(self.y)), law)


def speed(name: str, singles: int, several: int) -> Iterator[Timed]:
    subject = Subject(name, ("plain", "certified", "retrain"))
    n = len(subject.y)
    subject.timed(
        "warm up", [subject.random_rows(count, 99) for count in (1, n // 100)], exact=True
    )
    yield subject.timed("1 row", [subject.random_rows(1, seed) for seed in range(singles)])
    for label, count in (("0.1 %", max(2, n // 1000)), ("1 %", n // 100)):
        yield subject.timed(label, [subject.random_rows(count, seed) for seed in range(several)])
    volumes = subject.data.entry.volumes
    if volumes is not None:
        for law in [law for law in LAWS if not law.startswith("text")]:
            rows = subject.by_law(law, volumes[-1])
            yield subject.timed(f"{100 * volumes[-1]:g} %, {law}", [rows], exact=True)


def lost(name: str) -> Lost:
    subject = Subject(name, ("certified", "influence"))
    data, n = subject.data, len(subject.y)
    with subject._restored("certified") as model:
        model.unlearn(subject.random_rows(max(1, n // 100), 0))
        centre = model._state.centre
        releases = model._releases.certifier.release(centre, RELEASES)
    exact = _accuracy(data, centre)
    noisy = [_accuracy(data, weights) for weights in releases]
    sizes = {"1 row": 1, "0.1 %": max(2, n // 1000), "1 %": max(3, n // 100)}
    return Lost(
        dataset=data.entry.title,
        centre=exact,
        released=float(np.mean(noisy)),
        lost=exact - float(np.mean(noisy)),
        worst=exact - min(noisy),
        sigma={label: _influence_sigma(subject, count) for label, count in sizes.items()},
    )


def _accuracy(data: Prepared, weights: np.ndarray) -> float:
    return 100 * accuracy(predict(data.X_test, weights), np.asarray(data.y_test))


def _influence_sigma(subject: Subject, count: int) -> float:
    """|u| / mu, the median of 9 deletions: u is the gradient that INFLUENCE's step leaves."""
    needed = []
    for seed in range(9):
        with subject._restored("influence") as model:
            model.unlearn(subject.random_rows(count, seed))
            data, weights = model._data, model._state.centre
            left = data.gradient_sum(weights) + L2 * data.n_remaining * weights
        needed.append(float(np.linalg.norm(left)) / mu_of(EPSILON, DELTA))
    return median(needed)


SPEED_HEAD = (
    "| data | rows leave | deletions | plain, ms | certified, ms | ratio | exact, ms | "
    "passes more: least, median, most | without a pass | bounds |\n" + "|---" * 10 + "|"
)


def speed_line(one: Timed) -> str:
    more = [a - b for a, b in zip(one.passes, one.passes_plain, strict=True)]
    exact = "" if one.retrained is None else f"{1e3 * one.retrained:.4g}"
    without = sum(passes == 0 for passes in one.passes)
    bounds = ", ".join(f"{bound} {count}" for bound, count in sorted(one.bounds.items()))
    return (
        f"| {one.dataset} | {one.rows} | {one.deletions} | {1e3 * one.plain:.4g} | "
        f"{1e3 * one.certified:.4g} | {one.ratio:.2f} | {exact} | "
        f"{min(more):.2f}, {median(more):.2f}, {max(more):.2f} | "
        f"{without} of {one.deletions} | {bounds} |"
    )


def accuracy_lines(found: Sequence[Lost]) -> Iterator[str]:
    yield (
        "| data | before noise, % | released, % | lost, points | lost at worst | "
        "sigma of INFLUENCE for the same mu: 1 row, 0.1 %, 1 % |"
    )
    yield "|---" * 6 + "|"
    for one in found:
        sigmas = ", ".join(f"{sigma:.2g}" for sigma in one.sigma.values())
        yield (
            f"| {one.dataset} | {one.centre:.2f} | {one.released:.2f} | {one.lost:.3f} | "
            f"{one.worst:.3f} | {sigmas} |"
        )


def run(parts: Sequence[str], datasets: Sequence[str], quick: bool) -> dict[str, object]:
    """Everything, as JSON can hold it; printed on the way."""
    warnings.simplefilter("ignore", FittedStepWarning)
    about = machine()
    print(json.dumps(about), flush=True)
    found: dict[str, object] = {"machine": about, "quick": quick}
    if "speed" in parts:
        singles, several = (5, 2) if quick else (41, 9)
        timed = []
        print(SPEED_HEAD, flush=True)
        for name in datasets or (("digits-b",) if quick else FAST):
            for one in speed(name, singles, several):
                timed.append(one)
                print(speed_line(one), flush=True)
        found["speed"] = [asdict(one) for one in timed]
    if "accuracy" in parts:
        measured = [lost(name) for name in datasets or (("digits-b",) if quick else ACCURATE)]
        print("\n".join(accuracy_lines(measured)), flush=True)
        found["accuracy"] = [asdict(one) for one in measured]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=["speed", "accuracy", []], default=[])
    parser.add_argument("--datasets", default="", help="names of the catalogue, by commas")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    chosen = [name for name in given.datasets.split(",") if name]
    found = run(given.parts or ["speed", "accuracy"], chosen, given.quick)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
