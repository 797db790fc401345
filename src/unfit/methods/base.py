"""What a method is: `train` and `unlearn`, both pure, over a frozen State.

A method's file says how it differs, what it is called, which settings of its own it has and what it
needs of an engine; what methods share (training by Newton or SGD, statistics, noise, mini-batches
of deleted rows) is here. A package adds a method by an entry point of the group "unfit.methods".
May know core, engines.auto, engines.base and engines.sgd.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from unfit.core.conjugate_gradients import Guide
from unfit.core.factors import Inverse
from unfit.core.newton import Minimum
from unfit.core.noise import standard_normal
from unfit.core.penalty import Penalty, Ridge
from unfit.core.sgd import Plan, power_of_two_above
from unfit.core.statistics import Statistics
from unfit.core.trajectory import Reserve, TrajectoryFile, restore
from unfit.engines.auto import Task
from unfit.engines.base import Engine
from unfit.engines.sgd import sgd_engine
from unfit.errors import TooLarge, Unavailable
from unfit.knobs import Knob, knob, knobs
from unfit.methods.foresight import Foresight
from unfit.methods.minimum import Objective, minimize
from unfit.methods.running_guide import RunningGuide
from unfit.methods.stream import Stream
from unfit.progress import ProgressCallback

Option = int | float | bool | str


@dataclass(frozen=True)
class Settings:
    """The parameters of every method, under the names of the estimator's constructor.

    noise_per_batch: FISHER as it was published. Every mini-batch of deleted rows adds its noise to
    the weights, and the next one steps on from there; by default noise is added once a request, to
    what is released. Either way a request starts from the centre. For the reproduction of the
    paper only: the estimator and the workspace do not offer it.

    options: values of settings that only one method has, by name and in order; see Method.Options.

    The penalty is l2 for each row or, where C is given, 1 / C whatever the rows; see core.penalty.
    """

    l2: float = 1e-4
    C: float | None = None
    penalize_intercept: bool = True
    sigma: float = 0.0
    deletion_batch_size: int | None = knob(None, "rows per step; fewer is closer and slower")
    period: int = knob(50, "one step in so many is exact")
    burn_in: int = knob(10, "number of exact steps at the start")
    solver: str = "auto"
    epochs: int = 200
    batch_size: int | None = 512
    learning_rate: float = 1.0
    tol: float = 1e-8
    noise_per_batch: bool = False
    options: tuple[tuple[str, Option], ...] = ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Settings":
        options = content.get("options", {})
        return cls(**{**content, "options": tuple(sorted(options.items()))})

    def without_options(self, **changes: Any) -> "Settings":
        """For another method, such as RETRAIN to compare with: options are a method's own."""
        return replace(self, options=(), **changes)

    def to_json(self) -> dict[str, Any]:
        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "options"}
        for later, default in _LATER.items():  # files from before they existed are as they were
            if content[later] == default:
                del content[later]
        return content | ({"options": dict(self.options)} if self.options else {})


_LATER = {"C": None, "penalize_intercept": True}
OFFERED = tuple(f.name for f in fields(Settings) if f.name not in ("noise_per_batch", "options"))


@dataclass(frozen=True)
class NoOptions:
    """The settings of a method that has none of its own."""


@dataclass(frozen=True)
class Run:
    """A stored SGD run: its plan, the row in each slot, rows per batch now, w_t and g_t.

    radius: a power of two that no remaining row is longer than, which bounds every gradient.
    """

    plan: Plan
    row_of: np.ndarray
    counts: np.ndarray
    file: TrajectoryFile
    radius: float


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a training took: Newton's steps, and the largest |gradient sum| that it left of any
    problem, for each row (or unit of sample weight). Of SGD: its epochs; it measures no gradient.
    """

    iterations: int
    residual: float | None = None


@dataclass(frozen=True)
class State:
    """A trained model and what its method keeps for the next deletion.

    weights (k, d) are what is released; n rows they stand for. kept_centre: the same weights
    before noise was added, or None where none was; see `centre`. statistics: sums at exactly the
    centre, or None if nobody prepared them. stale_inverse: one inverse Hessian per
    problem, of these rows but from before the centre moved: a guide, by which guide_passes passes
    over the rows were made that a fresh one would have saved. distance: of the centre from the
    optimum, foreseen, as a share of its length. linear_term (k, d): sigma b of INFLUENCE's
    objective. run: DELTAGRAD's stored training; spare: a second file, ready to take the next one,
    once. stream and running_guide: what the next requests of a stream need, and foresight: what
    tells whether one needs a pass, in memory alone. own: arrays that a method from outside keeps,
    by name. training: of a state that was just trained.
    """

    method: str
    weights: np.ndarray
    n: int
    statistics: Statistics | None = field(default=None, repr=False)
    stale_inverse: Sequence[Inverse] | None = field(default=None, repr=False)
    guide_passes: int = field(default=0, repr=False)
    distance: float | None = field(default=None, repr=False)
    linear_term: np.ndarray | None = field(default=None, repr=False)
    run: Run | None = field(default=None, repr=False)
    spare: Reserve | None = field(default=None, repr=False)
    kept_centre: np.ndarray | None = field(default=None, repr=False)
    stream: Stream | None = field(default=None, repr=False)
    running_guide: RunningGuide | None = field(default=None, repr=False)
    foresight: Foresight | None = field(default=None, repr=False)
    own: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    training: Training | None = field(default=None, repr=False)

    def at(self, weights: np.ndarray, kept_centre: np.ndarray | None, **known: Any) -> "State":
        """The same state with other weights, and what else is known of them. Fields are copied at
        once: `dataclasses.replace` takes as long as a tenth of a request of one row."""
        made = object.__new__(State)
        vars(made).update(vars(self) | known, weights=weights, kept_centre=kept_centre)
        return made

    @property
    def inverses(self) -> Sequence[Inverse] | None:
        """One inverse Hessian per problem: of the statistics, or an older one."""
        if self.statistics is None or self.statistics.factors is None:
            return self.stale_inverse
        found = [factor for factor in self.statistics.factors if isinstance(factor, Inverse)]
        return found if len(found) == len(self.statistics.factors) else None

    @property
    def centre(self) -> np.ndarray:
        """The weights without noise: where the next request starts.

        Private: whoever has both it and the released weights knows the noise, which then hides
        nothing. Starting from the released weights instead would make the next step undo their
        noise first, far from the optimum, and multiply what it cannot undo.
        """
        return self.weights if self.kept_centre is None else self.kept_centre

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Numbers that hold all of it but its name and what `prepare` can compute again."""
        arrays = {"weights": self.weights, "n": np.array(self.n)}
        if self.kept_centre is not None:
            arrays["centre"] = self.kept_centre
        if self.linear_term is not None:
            arrays["tilt"] = self.linear_term
        if self.statistics is not None:
            known, penalty = self.statistics, self.statistics.penalty
            arrays |= {
                "gradient_sum": known.gradient_sum,
                "hessian_sum": known.hessian_sum,
                "l2": np.array(penalty.per_row),
            }
            if not known.plain:
                parts = [penalty.constant, float(penalty.intercept), known.total_weight]
                arrays["penalty"] = np.array(parts)
        if self.run is not None:
            plan = self.run.plan
            arrays |= {
                "plan_whole": np.array([plan.seed, plan.epochs, plan.batch_size], np.uint64),
                "plan_real": np.array([plan.learning_rate, plan.l2, self.run.radius]),
                "row_of": self.run.row_of,
                "counts": self.run.counts,
                "trajectory": np.asarray(self.run.file.array),
            }
        return arrays | {f"{_OWN}{name}": value for name, value in self.own.items()}

    @classmethod
    def from_arrays(cls, method: str, arrays: Mapping[str, np.ndarray]) -> "State":
        weights, n = np.asarray(arrays["weights"]), int(arrays["n"])
        statistics = run = None
        centre = arrays.get("centre")
        if "hessian_sum" in arrays:
            constant, intercept, total = arrays.get("penalty", (0.0, 1.0, n))
            statistics = Statistics(
                weights if centre is None else centre,
                arrays["gradient_sum"],
                arrays["hessian_sum"],
                n,
                float(total),
                Penalty(float(arrays["l2"]), float(constant), bool(intercept)),
            )
        if "trajectory" in arrays:
            seed, epochs, batch_size = (int(v) for v in arrays["plan_whole"])
            rate, l2, radius = (float(v) for v in arrays["plan_real"])
            plan = Plan(seed, epochs, batch_size, rate, l2)
            file = restore(arrays["trajectory"])
            radius = power_of_two_above(radius)  # older files hold the length of the longest row
            run = Run(plan, arrays["row_of"], arrays["counts"], file, radius)
        return cls(
            method,
            weights,
            n,
            statistics=statistics,
            linear_term=arrays.get("tilt"),
            run=run,
            kept_centre=centre,
            own={k.removeprefix(_OWN): v for k, v in arrays.items() if k.startswith(_OWN)},
        )


_OWN = "own."  # how the arrays of a method from outside are called in a file


class Method(ABC):
    """A way to unlearn. `unlearn` is what a method has to say; the rest can be inherited.

    title, summary and description are for people, on the page of the method and in documents;
    {names} of settings stand for their values. uses: settings of Settings that not every method
    has, the one that trades closeness for speed first, which tau explains. Options: a frozen
    dataclass of settings that only this method has (see unfit.knobs). needs: protocols that an
    engine must satisfy beyond Engine. replays: keeps its training run and goes through it again.
    keeps_sums: the statistics it prepares are worth a file. passes: over the rows, that a prepared
    request takes, about.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    description: ClassVar[str]
    uses: ClassVar[tuple[str, ...]] = ()
    tau: ClassVar[str] = ""
    Options: ClassVar[type[object]] = NoOptions
    needs: ClassVar[tuple[type, ...]] = ()
    replays: ClassVar[bool] = False
    passes: ClassVar[int] = 8
    keeps_sums: ClassVar[bool] = False
    solvers: ClassVar[tuple[str, ...]] = ("newton", "sgd")  # the first one is "auto"
    # Where sigma acts: on what is released, shaped by the last step ("steps"; with
    # noise_per_batch by every step), in the objective it was trained on, or on what is released,
    # whatever the steps were ("end").
    noise: ClassVar[Literal["steps", "objective", "end"]] = "steps"

    def __init__(self, settings: Settings, *, refine: bool = False, polished: bool = False) -> None:
        """refine: solve to float64's precision whatever that of the rows, at a pass over them.
        polished: what comes out is polished by whoever asked, at passes of their own."""
        if settings.solver not in ("auto", *self.solvers):
            raise ValueError(
                f"method {self.name!r} cannot train with solver={settings.solver!r}; "
                f"use {' or '.join(repr(s) for s in ('auto', *self.solvers))}"
            )
        self.options = self._options(dict(settings.options))  # an instance of Options
        self.settings, self.refine, self.polished = settings, refine, polished
        self.solver = self.solvers[0] if settings.solver == "auto" else settings.solver

    @classmethod
    def knobs(cls) -> list[Knob]:
        """The settings that not every method has, with their help."""
        shared = {found.name: found for found in knobs(Settings)}
        own = knobs(cls.Options)  # type: ignore[arg-type]  # mypy takes a class for unhashable
        return [*(shared[name] for name in cls.uses), *own]

    def _options(self, given: dict[str, Option]) -> Any:
        names = [found.name for found in self.knobs() if found.name not in self.uses]
        for name in given:
            if name not in names:
                has = f"it has {', '.join(names)}" if names else "it has none"
                raise ValueError(f"method {self.name!r} has no option {name!r}; {has}")
        if not given:
            return self.Options()
        from pydantic import TypeAdapter, ValidationError  # for those who have options alone

        try:
            return TypeAdapter(self.Options).validate_python(given)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(
                f"option {'.'.join(map(str, first['loc']))!r} of method {self.name!r}: "
                f"{first['msg']}"
            ) from None

    @property
    def task(self) -> Task:
        """What this asks of an engine, for one to be chosen."""
        s = self.settings
        epochs = s.epochs if self.solver == "sgd" else 0
        return Task(epochs=epochs, batch_size=s.batch_size, passes=self.passes)

    def require(self, data: Engine) -> None:
        """An error in a sentence, before any work, where the engine lacks what is needed."""
        if self.solver == "sgd":
            sgd_engine(data, f"The method {self.name!r} with the solver 'sgd'")
            self._require_plain_objective(data)
        if data.sample_weight is not None and not data.takes_sample_weight:
            raise Unavailable(
                f"The engine {data.name!r} does not take sample weights; use the engine 'cpu', or "
                "leave sample_weight and class_weight out."
            )
        for protocol in self.needs:
            if not isinstance(data, protocol):
                raise Unavailable(
                    f"The method {self.name!r} needs an engine that offers {protocol.__name__}, "
                    f"and the engine {data.name!r} does not; use another engine or method."
                )

    def _require_plain_objective(self, data: Engine) -> None:
        """SGD's steps are means over rows of a batch, with one penalty for each."""
        remedy = f"use solver='newton'{', or a method that has it' if self.replays else ''}"
        if data.sample_weight is not None:
            raise ValueError(
                "SGD counts the rows of a mini-batch and not their weights, so sample_weight and "
                f"class_weight cannot be used with it; {remedy}"
            )
        if not self.settings.penalize_intercept and data.intercept:
            raise ValueError(
                "SGD penalises every weight alike, so penalize_intercept=False cannot be used with "
                f"it; {remedy}"
            )
        if self.replays and self.settings.C is not None:
            raise ValueError(
                f"the method {self.name!r} replays steps whose penalty is per row, and that of C "
                "would change for each row when others leave; give l2 instead of C"
            )

    def train(
        self,
        data: Engine,
        rng: np.random.Generator,
        progress: ProgressCallback | None = None,
        *,
        start: np.ndarray | None = None,
    ) -> State:
        """A model of the remaining rows: the optimum, released with noise.

        start: weights (k, d) to start from, instead of 0 (Newton) or random ones (SGD).
        """
        weights, training = self._trained(data, rng, start=start, progress=progress)
        return replace(self.release(weights, data, rng), training=training)

    def _trained(
        self,
        data: Engine,
        rng: np.random.Generator,
        *,
        linear_term: np.ndarray | None = None,
        start: np.ndarray | None = None,
        progress: ProgressCallback | None = None,
    ) -> tuple[np.ndarray, Training]:
        if self.solver == "sgd":
            weights = self._sgd(data, rng, None, linear_term, progress, start=start)
            return weights, Training(iterations=self.settings.epochs)
        found = self.minimum(data, linear_term=linear_term, start=start)
        residual = float(found.residual.max()) / data.total_weight()
        return found.weights, Training(iterations=found.steps, residual=residual)

    def release(self, centre: np.ndarray, data: Engine, rng: np.random.Generator) -> State:
        """The state that publishes weights trained on the remaining rows, with fresh noise."""
        return with_noise(
            State(self.name, centre, data.n_remaining), self.released(centre, data, rng)
        )

    def recentred(self, state: State, data: Engine) -> State:
        """The state with its centre found anew, where released weights are all that is known.

        Such are states that were kept without one although sigma > 0. The centre is the optimum
        of the rows the state stands for: this is a training, started from the weights.
        """
        if self.settings.sigma == 0 or self.noise == "objective" or state.kept_centre is not None:
            return state
        return State(
            state.method,
            state.weights,
            state.n,
            run=state.run,
            spare=state.spare,
            kept_centre=self._centre_of(state, data),
        )

    def _centre_of(self, state: State, data: Engine) -> np.ndarray:
        return self.minimum(data, start=state.weights).weights

    @abstractmethod
    def unlearn(
        self, state: State, data: Engine, deleted: np.ndarray, rng: np.random.Generator
    ) -> State:
        """The model without the deleted rows, which `data` still counts among the remaining."""

    def prepare(self, state: State, data: Engine) -> State:
        """The same model with what makes the next `unlearn` cheap."""
        return state

    def optimum(
        self,
        data: Engine,
        rng: np.random.Generator,
        *,
        mask: np.ndarray | None = None,
        linear_term: np.ndarray | None = None,
        start: np.ndarray | None = None,
        progress: ProgressCallback | None = None,
    ) -> np.ndarray:
        """Weights trained by this method's solver, without noise. start: of Newton's method, since
        SGD starts at random; progress: of SGD, which alone is long."""
        if self.solver == "sgd":
            return self._sgd(data, rng, mask, linear_term, progress)
        return self.minimum(data, mask, linear_term=linear_term, start=start).weights

    def minimum(
        self,
        data: Engine,
        mask: np.ndarray | None = None,
        *,
        linear_term: np.ndarray | None = None,
        start: np.ndarray | None = None,
        guide: Guide | None = None,
    ) -> Minimum:
        """The optimum of the rows of a mask by Newton's method, with the gradient left there."""
        objective = self.objective(data, mask, linear_term)
        return minimize(objective, self.settings.tol, start=start, guide=guide)

    def objective(
        self,
        data: Engine,
        mask: np.ndarray | None = None,
        linear_term: np.ndarray | None = None,
    ) -> Objective:
        """What is minimised for the rows of a mask (None: the remaining)."""
        return Objective(data=data, mask=mask, penalty=self.penalty(data), linear_term=linear_term)

    def plan(self, rng: np.random.Generator, n: int) -> Plan:
        s = self.settings
        batch = n if s.batch_size is None else min(s.batch_size, n)
        seed = int(rng.integers(1 << 63))
        l2 = self._penalty(True).per_row_of(n)
        return Plan(seed, s.epochs, batch, float(s.learning_rate), float(l2))

    def _sgd(
        self,
        data: Engine,
        rng: np.random.Generator,
        mask: np.ndarray | None,
        linear_term: np.ndarray | None,
        progress: ProgressCallback | None,
        *,
        start: np.ndarray | None = None,
    ) -> np.ndarray:
        row_of = random_order(data.remaining if mask is None else mask, rng)
        plan = self.plan(rng, len(row_of))
        per_row = None if linear_term is None else linear_term / len(row_of)
        origin = random_start(rng, data) if start is None else start
        walking = sgd_engine(data, f"The method {self.name!r} with the solver 'sgd'")
        layout = walking.lay_out(row_of)
        weights = walking.sgd(layout, plan, origin, linear_term=per_row, progress=progress)
        walking.drop_layout()
        return finite(weights, "SGD")

    def statistics(
        self, data: Engine, weights: np.ndarray, mask: np.ndarray | None = None
    ) -> Statistics:
        """Sums over the rows of mask (None: the remaining) at the given weights: one pass."""
        n = data.n_remaining if mask is None else int(np.count_nonzero(mask))
        sums = data.gradient_sum(weights, mask), data.hessian_sum(weights, mask)
        total, penalty = data.total_weight(mask), self.penalty(data)
        return Statistics.of_sums(weights, sums, n=n, total_weight=total, penalty=penalty)

    def penalty(self, data: Engine) -> Penalty:
        """The penalty of the objective for a model of such rows."""
        return self._penalty(self.settings.penalize_intercept or not data.intercept)

    def _penalty(self, intercept: bool) -> Penalty:
        C = self.settings.C
        if C is None:
            return Penalty(self.settings.l2, 0.0, intercept)
        return Penalty(0.0, 1.0 / C, intercept)

    def ridge(self, data: Engine, mask: np.ndarray | None = None) -> Ridge:
        """The penalty for the rows of mask (None: the remaining), on each column."""
        return self.penalty(data).on(data.total_weight(mask), data.d)

    def released(self, weights: np.ndarray, data: Engine, rng: np.random.Generator) -> np.ndarray:
        """What is published of the optimum of the remaining rows: weights with fresh noise."""
        return self.perturbed(weights, rng)

    def perturbed(self, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """weights + sigma b, b fresh."""
        if self.settings.sigma == 0:
            return weights
        return weights + self.settings.sigma * standard_normal(rng, weights.shape)


def split(deleted: np.ndarray, size: int | None) -> Iterator[np.ndarray]:
    """Mini-batches of deleted rows; the last one may be short."""
    step = size or max(1, len(deleted))
    for start in range(0, len(deleted), step):
        yield deleted[start : start + step]


def random_order(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows of the mask, shuffled once: slot -> row."""
    rows = np.flatnonzero(mask).astype(np.int32 if mask.size < 1 << 31 else np.int64)
    rng.shuffle(rows)
    return rows


def random_start(rng: np.random.Generator, data: Engine) -> np.ndarray:
    """w_0 = randn(d) / sqrt(d)."""
    return np.asarray(rng.standard_normal((data.k, data.d)) / np.sqrt(data.d))


def finite(weights: np.ndarray, walking: str | None = None) -> np.ndarray:
    """The weights, or an error where they are not numbers. walking: what came to them by steps of
    a learning rate, which may be too long."""
    if np.isfinite(weights).all():
        return weights
    if walking is None:
        raise TooLarge
    raise FloatingPointError(
        f"{walking} diverged; lower learning_rate, or scale the rows to norm 1 "
        "(unfit.MaxNormScaler)"
    )


def with_noise(centred: State, released: np.ndarray) -> State:
    """The state at its centre, publishing the given weights."""
    if released is centred.weights:
        return centred
    return replace(centred, weights=released, kept_centre=centred.weights)


def moved(
    state: State,
    weights: np.ndarray,
    n: int,
    stale_inverse: Sequence[Inverse] | None = None,
    stream: Stream | None = None,
    running_guide: RunningGuide | None = None,
) -> State:
    """The state after its centre moved: what was known at the old one is a guide at best."""
    return State(
        state.method,
        weights,
        n,
        stale_inverse=stale_inverse,
        linear_term=state.linear_term,
        stream=stream,
        running_guide=running_guide,
    )


def without_traces(state: State, method: Method, columns: np.ndarray) -> State:
    """The weights of columns in which nobody has a value are zero, as a training makes them (but
    for SGD's, which keep of their start what the penalty has not taken), and not what a step has
    left of them; noise hides that anyway."""
    if len(columns) == 0 or method.settings.sigma > 0 or method.solver == "sgd":
        return state
    weights = state.weights.copy()
    weights[:, columns] = 0.0
    return replace(state, weights=weights)
