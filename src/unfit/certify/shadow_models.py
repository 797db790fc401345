"""An attack by shadow models (U-LiRA, Hayes et al. 2024): does the way a model went leave traces?

Many models are trained on random halves of the rows. Some rows, those that move the model most, are
targets. From every half with a target in it, the target is unlearned; and a model is retrained on
the same half without it. If unlearning leaves nothing, nobody can tell the two kinds apart by what
they say of the target:

    z = x.w - x.w*          w released, w* the optimum of the half without the target

How well they can be told apart is found by certify.shadow_scores. The attacker knows all rows but
the target, which a claim of epsilon and delta allows, so w* is known; releases without noise would
then tell themselves apart by any digit, and z is x.w there.

Controls: halves that never unlearned must be told from retrained ones; halves that never had the
target must not. May know methods, engines and what is certified.
"""

from dataclasses import dataclass

import numpy as np

from unfit.certify.attack_result import AttackResult
from unfit.certify.pipelines import Pipeline, ends_at_optimum
from unfit.certify.rates import MISTAKES, RATES, Told
from unfit.certify.shadow_scores import Margins, judged
from unfit.core.factors import Cholesky
from unfit.core.objective import Rows
from unfit.core.penalty import Ridge
from unfit.engines.base import Engine
from unfit.errors import BadInput
from unfit.methods.base import State
from unfit.methods.retrain import Retrain
from unfit.progress import ProgressCallback

SPLITS, TARGETS = 512, 10
FEWEST = 16  # splits
TOLERANCE = 1e-12  # of the reference, |F| per row
_BLOCK = 4096
_SOLVED_ALONE = 1000  # rows that are solved for one at a time, where there is no Hessian


@dataclass(frozen=True, kw_only=True)
class ShadowTest(AttackResult):
    """What the shadow models found. found, control, same: of the target that shows most; mean: over
    targets. releases: of each model."""

    splits: int
    targets: int
    releases: int
    knows_rows: bool
    mean: Told

    def _size(self) -> list[tuple[str, str]]:
        each = "" if self.releases == 1 else f", {self.releases} releases of each model"
        knows = "knows" if self.knows_rows else "does not know"
        return [
            ("shadow models", f"{self.splits:,} halves of the rows, {self.targets} targets{each}"),
            ("attacker", f"{knows} the rows beside the target"),
        ]

    def _more(self) -> list[tuple[str, str]]:
        return [
            ("AUC", f"{self.mean.auc:.3g} on average, {self.found.auc:.3g} for the worst target"),
            (
                "TPR at 1 % FPR",
                f"{100 * self.mean.tpr:.3g} % on average, {100 * self.found.tpr:.3g} % for the "
                "worst target",
            ),
        ]


@dataclass(frozen=True)
class Size:
    """How many halves, and how many targets in them."""

    splits: int = SPLITS
    targets: int = TARGETS

    def __post_init__(self) -> None:
        if self.splits < FEWEST or self.splits % 4:
            raise BadInput(
                f"splits must be a multiple of 4 and at least {FEWEST}, got {self.splits}"
            )
        if self.targets < 1:
            raise BadInput(f"targets must be at least 1, got {self.targets}")


@dataclass(frozen=True)
class Design:
    """Which rows are targets, and in which splits they are, (splits, targets): in half of the odd
    ones and half of the even ones."""

    targets: np.ndarray
    members: np.ndarray

    @classmethod
    def draw(cls, targets: np.ndarray, splits: int, rng: np.random.Generator) -> "Design":
        members = np.zeros((splits, len(targets)), np.bool_)
        for j in range(len(targets)):
            for parity in (0, 1):
                those = np.arange(parity, splits, 2)
                members[rng.permutation(those)[: len(those) // 2], j] = True
        return cls(targets, members)

    def half(self, data: Engine, split: int, rng: np.random.Generator) -> Engine:
        """About half of the remaining rows, with the targets of this split."""
        mask = data.remaining & (rng.random(len(data)) < 0.5)
        mask[self.targets] = self.members[split]
        half = data.shared()
        half.forget(np.flatnonzero(data.remaining & ~mask))
        return half


def shadow_test(
    pipeline: Pipeline,
    data: Engine,
    near: np.ndarray,
    *,
    epsilon: float | None,
    delta: float,
    size: Size,
    rng: np.random.Generator,
    mistakes: float = MISTAKES,
    progress: ProgressCallback | None = None,
) -> ShadowTest:
    """Attack a pipeline on halves of the remaining rows.

    near: the optimum of all of them. mistakes: how often what is stated may be wrong.
    """
    ridge = pipeline.method.ridge(data)
    rows = most_influential(data, near, ridge, size.targets)
    design = Design.draw(rows, size.splits, rng)
    measured = _measure(pipeline, data, near, design, rng, progress)
    seen = judged(measured, delta, mistakes / (RATES * len(measured)))
    return ShadowTest(
        epsilon=epsilon,
        delta=delta,
        splits=size.splits,
        targets=len(measured),
        releases=measured[0].unlearned.shape[1],
        knows_rows=pipeline.knows_rows,
        found=seen.found,
        mean=seen.mean,
        control=seen.control,
        same=seen.same,
        most=seen.most,
        side=seen.side,
        curves=seen.curves,
    )


def most_influential(data: Engine, weights: np.ndarray, ridge: Ridge, count: int) -> np.ndarray:
    """The remaining rows of largest |slope| |H^-1 x|: those that move the optimum most."""
    places = np.flatnonzero(data.remaining)
    if len(places) < 4 * count:
        raise BadInput(
            f"{count} targets need at least {4 * count} rows, and {len(places)} remain; ask for "
            "fewer targets"
        )
    factors = data.factors(weights, None, ridge)
    inverses = [np.linalg.inv(f.hessian) for f in factors if isinstance(f, Cholesky)]
    influence = np.zeros(len(places))
    for start in range(0, len(places), _BLOCK):
        part = slice(start, start + _BLOCK)
        rows = data.take(places[part])
        slopes = np.abs(rows.slopes(weights))
        if len(inverses) == len(factors):
            X = with_intercept(rows)
            lengths = np.stack([np.linalg.norm(X @ inverse, axis=1) for inverse in inverses])
        else:  # too wide for a Hessian
            longer = np.sqrt(rows.squared_lengths())
            lengths = np.broadcast_to(longer, (len(factors), len(rows)))
        influence[part] = np.linalg.norm(slopes * lengths.T, axis=1)
    if len(inverses) < len(factors):
        first = np.argsort(influence)[::-1][:_SOLVED_ALONE]
        rows = data.take(places[first])
        X, slopes = with_intercept(rows), np.abs(rows.slopes(weights))
        solved = [[np.linalg.norm(f.solve(x)) for f in factors] for x in X]
        influence[:] = 0
        influence[first] = np.linalg.norm(slopes * np.array(solved), axis=1)
    return np.sort(places[np.argsort(influence)[::-1][:count]])


def with_intercept(rows: Rows) -> np.ndarray:
    """A few rows as a dense array, (m, d)."""
    X = rows.dense().astype(np.float64)
    return np.column_stack([X, np.ones(len(X))]) if rows.intercept else X


def _measure(
    pipeline: Pipeline,
    data: Engine,
    near: np.ndarray,
    design: Design,
    rng: np.random.Generator,
    progress: ProgressCallback | None,
) -> list[Margins]:
    """Train every half, and unlearn and retrain for every target in it."""
    X = with_intercept(data.take(design.targets))
    splits = len(design.members)
    present: list[list[tuple[np.ndarray, ...]]] = [[] for _ in X]
    absent: list[list[np.ndarray]] = [[] for _ in X]
    for split in range(splits):
        if progress is not None:
            progress("shadow models", split, splits)
        shadow = _Shadow.train(pipeline, design.half(data, split, rng), near, rng)
        for j, (x, target) in enumerate(zip(X, design.targets, strict=True)):
            if design.members[split, j]:
                present[j].append(shadow.with_target(x, target, rng))
            else:
                absent[j].append(shadow.without_target(x))
    if progress is not None:
        progress("shadow models", splits, splits)
    odd = np.arange(splits) % 2 == 1
    made = []
    for j in range(len(X)):
        member = design.members[:, j]
        unlearned, retrained, never = (np.array(z) for z in zip(*present[j], strict=True))
        made.append(
            Margins(
                unlearned=unlearned,
                retrained=retrained,
                never=never,
                odd=odd[member],
                absent=np.array(absent[j]),
                odd_absent=odd[~member],
            )
        )
    return made


@dataclass(frozen=True)
class _Shadow:
    """A model of one half, and the half's optimum."""

    pipeline: Pipeline
    half: Engine
    state: State
    optimum: np.ndarray

    @classmethod
    def train(
        cls, pipeline: Pipeline, half: Engine, near: np.ndarray, rng: np.random.Generator
    ) -> "_Shadow":
        state = pipeline.train(half, near, rng)
        optimum = state.centre
        if not ends_at_optimum(pipeline.method):
            optimum = _optimum(pipeline, half, near)
        return cls(pipeline, half, state, optimum)

    def with_target(
        self, x: np.ndarray, target: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """z of releases that unlearned the target, never had it, and never unlearned."""
        leaving = np.array([target])
        left = self.half.shared()
        left.forget(leaving)
        left.precise = False  # gradients are float64's anyway, and steps need no more
        optimum = _optimum(self.pipeline, left, self.optimum)
        kinds = (
            self.pipeline.unlearned(self.state, self.half, leaving, rng),
            self.pipeline.retrained(optimum, left, rng),
            self.pipeline.released(self.state),
        )
        unlearned, retrained, never = (self._z(released, x, optimum) for released in kinds)
        return unlearned, retrained, never

    def without_target(self, x: np.ndarray) -> np.ndarray:
        return self._z(self.pipeline.released(self.state), x, self.optimum)

    def _z(self, released: np.ndarray, x: np.ndarray, optimum: np.ndarray) -> np.ndarray:
        """(releases, k)."""
        return np.asarray((released - optimum if self.pipeline.knows_rows else released) @ x)


def _optimum(pipeline: Pipeline, data: Engine, near: np.ndarray) -> np.ndarray:
    """Of the remaining rows, by RETRAIN."""
    settings = pipeline.method.settings.without_options(tol=TOLERANCE, sigma=0.0, solver="auto")
    exact = Retrain(settings)
    return exact.optimum(data, np.random.default_rng(0), start=near)
