"""Do attacks refute what is wrong, and only that? Three products that claim epsilon 1, many times.

    python tools/attack_study.py [--runs 100] [--splits 64] [--targets 4] [--quick]
    UNFIT_DATA=DIR python tools/attack_study.py --data covtype [--rows 5000]
    UNFIT_DATA=DIR python tools/attack_study.py --data covtype --rows 50000 --time

certified       unfit as it is: should be refuted in at most 1 run of 20
never unlearned publishes the model from before, with fresh noise
half the noise  publishes with half the noise that is claimed, from centres at the claim's limit

Every run draws other rows (made up, or of the data set) and other rows to forget, and attacks the
product twice: its releases, and the way it unlearns by shadow models. --time: one attack on a
certified model with 512 splits and 10 targets, timed. Prints Markdown.
"""

import argparse
import os
import platform
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

import unfit
from unfit.audit import Attack
from unfit.certify import Promise
from unfit.certify.pipelines import COUNT, CertifiedPipeline
from unfit.certify.release_test import Centres, release_test
from unfit.certify.shadow_models import Size, shadow_test
from unfit.data import catalog
from unfit.engines.base import Engine
from unfit.fitted_steps import FittedStepWarning
from unfit.methods import METHODS, Settings, State

L2, EPSILON, DELTA, NOISE = 1e-3, 1.0, 1e-5, 1e-3
FORGOTTEN = 20  # rows a run
EACH = 0.05 / 2  # how often each of two attacks may be wrong

Table = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class NeverUnlearns(CertifiedPipeline):
    def unlearned(
        self, state: State, data: Engine, leaving: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        return self.release(state.centre, COUNT)


@dataclass(frozen=True)
class AtTheLimit(CertifiedPipeline):
    """Ends as far from the optimum as the claim allows, on the side of the row that leaves."""

    def unlearned(
        self, state: State, data: Engine, leaving: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        best = exact(data, data.without(leaving))
        x = np.zeros_like(best)
        row = data.take(leaving).X[0]
        x[:, : len(row)] = row
        room = self.releases.certifier.room
        return self.release(best + room * x / np.linalg.norm(x), COUNT)


def exact(data: Engine, mask: np.ndarray | None = None) -> np.ndarray:
    """The optimum, from nothing."""
    method = METHODS["retrain"](Settings(l2=L2, tol=1e-13))
    return method.optimum(data, np.random.default_rng(0), mask=mask)


def fitted(table: Table) -> unfit.LogisticRegression:
    X, y = table
    clf = unfit.LogisticRegression(
        epsilon=EPSILON, delta=DELTA, noise=NOISE, l2=L2, dtype=str(X.dtype)
    )
    return clf.fit(X, y)


@dataclass(frozen=True)
class Product:
    """What is attacked: a pipeline, and the centre that it left after rows were forgotten."""

    pipeline: CertifiedPipeline
    data: Engine
    centre: np.ndarray


def certified(clf: unfit.LogisticRegression, gone: np.ndarray) -> Product:
    clf.unlearn(gone)
    release = clf._releases.certifier.release
    return Product(
        CertifiedPipeline(clf._fitted, clf._releases, release), clf._data, clf._state.centre
    )


def never_unlearned(clf: unfit.LogisticRegression, gone: np.ndarray) -> Product:
    before = clf._state.centre
    clf._data.forget(gone)
    release = clf._releases.certifier.release
    return Product(NeverUnlearns(clf._fitted, clf._releases, release), clf._data, before)


def half_the_noise(clf: unfit.LogisticRegression, gone: np.ndarray) -> Product:
    certifier = clf._releases.certifier
    clf._data.forget(gone)
    best = exact(clf._data)
    limit = best + certifier.room / np.sqrt(best.size)
    half = replace(certifier, promise=Promise(EPSILON, DELTA, NOISE / 2))
    return Product(AtTheLimit(clf._fitted, clf._releases, half.release), clf._data, limit)


PRODUCTS: dict[str, Callable[[unfit.LogisticRegression, np.ndarray], Product]] = {
    "certified": certified,
    "never unlearned": never_unlearned,
    "half the noise": half_the_noise,
}


def attacked(product: Product, size: Size, rng: np.random.Generator) -> Attack:
    data, p = product.data, product.pipeline
    retrained = exact(data)
    claim = {"epsilon": EPSILON, "delta": DELTA, "mistakes": EACH}
    control = exact(data, ~data.erased)
    centres = Centres(product.centre, retrained, control)
    return Attack(
        release=release_test(p.release, centres, **claim),
        shadow=shadow_test(p, data, retrained, size=size, rng=rng, **claim),
    )


def made_up(rng: np.random.Generator) -> Table:
    X = rng.standard_normal((600, 5)) / 2
    return X, X[:, 0] + X[:, 1] + 0.3 * rng.standard_normal(600) > 0


def drawn_from(name: str, rows: int) -> Callable[[np.random.Generator], Table]:
    found = catalog.load(name)
    y = found.y == found.entry.target if found.entry.target is not None else found.y

    def draw(rng: np.random.Generator) -> Table:
        places = np.sort(rng.choice(len(found.X), min(rows, len(found.X)), replace=False))
        return np.array(found.X[places]), np.array(y[places])

    return draw


def run(draw: Callable[[np.random.Generator], Table], runs: int, size: Size) -> dict[str, Counter]:
    """How often each product was refuted, by either attack and by each of them."""
    counts: dict[str, Counter] = {name: Counter() for name in PRODUCTS}
    for name, make in PRODUCTS.items():
        for i in range(runs):
            rng = np.random.default_rng([i, len(name)])
            table = draw(rng)
            gone = rng.choice(len(table[0]), FORGOTTEN, replace=False)
            started = time.perf_counter()
            found = attacked(make(fitted(table), gone), size, rng)
            counts[name]["seconds"] += time.perf_counter() - started
            counts[name][found.outcome] += 1
            for test, result in found.tests:
                counts[name][test] += result.outcome == "refuted"
            print(f"{name}, run {i + 1}: {found.outcome}", file=sys.stderr)
    return counts


def printed(counts: dict[str, Counter], runs: int) -> str:
    head = (
        "| product | runs | refuted | not refuted | cannot tell | by the release test | by shadow "
        "models | seconds a run |\n|---|--:|--:|--:|--:|--:|--:|--:|\n"
    )
    lines = [
        f"| {name} | {runs} | {c['refuted']} | {c['not refuted']} | {c['cannot tell']} | "
        f"{c['release test']} | {c['shadow models']} | {c['seconds'] / runs:.2f} |\n"
        for name, c in counts.items()
    ]
    return head + "".join(lines)


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    found = names[0] if names else platform.processor() or platform.machine()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    return (
        f"{found}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}, unfit "
        f"{unfit.__version__}"
    )


def timed(draw: Callable[[np.random.Generator], Table]) -> str:
    rng = np.random.default_rng(0)
    table = draw(rng)
    clf = fitted(table).unlearn(rng.choice(len(table[0]), FORGOTTEN, replace=False))
    started = time.perf_counter()
    found = clf.audit(attack=True, random_state=0).attack
    seconds = time.perf_counter() - started
    return f"{len(table[0]):,} rows of {table[0].shape[1]} columns: {seconds:.0f} s\n\n{found}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--splits", type=int, default=64)
    parser.add_argument("--targets", type=int, default=4)
    parser.add_argument("--data", help="a data set of the catalogue; made up by default")
    parser.add_argument("--rows", type=int, default=5000, help="drawn from the data set")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--quick", action="store_true", help="three runs")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", FittedStepWarning)  # of rows whose norm was fitted: not asked
    draw = made_up if asked.data is None else drawn_from(asked.data, asked.rows)
    print(f"{asked.data or 'made-up rows'}; {machine()}\n")
    if asked.time:
        print(timed(draw))
        return
    size, runs = Size(asked.splits, asked.targets), 3 if asked.quick else asked.runs
    print(f"{size.splits} splits, {size.targets} targets, epsilon {EPSILON:g}, delta {DELTA:g}\n")
    print(printed(run(draw, runs, size), runs))


if __name__ == "__main__":
    main()
