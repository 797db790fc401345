"""The contracts that extensions are held to, ours and other people's.

    from unfit.testing import check_method
    check_method(MyMethod)

`method_checks()` lists the checks one by one for test runners. `check_engine(MyEngine)` is the
contract of an engine, `check_loss(MyLoss)` that of a loss, `check_source(location)` that of a
source of rows, and `check_policy(MyPolicy)` that of a policy. May know lifecycle, estimator and
below, and data.
"""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, is_dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unfit.core.losses import LOGISTIC, Loss
from unfit.core.objective import Rows, gradient_and_products
from unfit.engines.base import Engine, SgdEngine, make_engine
from unfit.methods import METHODS, Method, Settings, State

if TYPE_CHECKING:
    import pyarrow as pa

    from unfit.data.sources import Location, Source
    from unfit.lifecycle.policy import Facts, Policy

MethodClass = type[Method]
Check = Callable[[MethodClass, "Case"], None]

FAST = Settings(epochs=20, batch_size=64, burn_in=5, period=5, l2=1e-3)


@dataclass(frozen=True)
class Case:
    """A small problem: rows, codes, and the rows to delete from it."""

    dtype: str
    n_classes: int
    loss: Loss = LOGISTIC

    def rows(self, repeat: int = 0) -> Rows:
        """400 rows of 24 columns; the first `repeat` rows appear again at the end."""
        rng = np.random.default_rng(7)
        X = rng.standard_normal((400, 24)) / np.sqrt(24)
        scores = X @ rng.standard_normal((24, self.n_classes)) + 0.3 * rng.standard_normal(
            (400, self.n_classes)
        )
        index = np.concatenate([np.arange(400), np.arange(repeat)])
        codes = scores.argmax(axis=1).astype(np.int32)
        return Rows(X[index].astype(self.dtype), codes[index], True, self.loss)

    def data(self, rows: Rows | None = None) -> Engine:
        return make_engine(rows or self.rows(), self.n_classes)

    @property
    def deleted(self) -> np.ndarray:
        return np.sort(np.random.default_rng(8).choice(400, 30, replace=False))

    @property
    def tolerance(self) -> float:
        """Agreement of two ways to compute the same thing, relative."""
        return 1e-8 if self.dtype == "float64" else 1e-4


CASES = [Case(dtype, k) for dtype in ("float32", "float64") for k in (2, 3)]


def method_checks() -> list[Check]:
    """Every check of the contract, in the order in which they are worth reading."""
    return [
        check_nothing_deleted_changes_nothing,
        check_unlearn_is_closer_than_doing_nothing,
        check_one_request_or_two,
        check_order_of_the_request_does_not_matter,
        check_row_added_twice_and_deleted_once,
        check_paths_agree,
        check_deletion_batches,
        check_inputs_are_never_written,
        check_state_is_not_changed,
        check_same_seed_same_model,
        check_noise_is_fresh,
        check_spread_is_that_of_retraining,
        check_each_request_has_noise_of_its_own,
        check_state_to_and_from_arrays,
    ]


def check_method(method: MethodClass, cases: list[Case] | None = None) -> None:
    """Run the whole contract; the first check that fails raises AssertionError and says why."""
    for case in cases or CASES:
        for check in method_checks():
            check(method, case)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def trained(method: Method, data: Engine, seed: int = 0) -> State:
    return method.prepare(method.train(data, rng(seed)), data)


def retrained(method: Method, data: Engine, deleted: np.ndarray, state: State) -> np.ndarray:
    """A full retraining: by Newton the optimum, by SGD the same batches without the rows."""
    if state.run is not None:
        exact = type(method)(replace(method.settings, period=1))
        return exact.unlearn(state, data, deleted, rng()).weights
    return METHODS["retrain"](method.settings).optimum(data, rng(), mask=data.without(deleted))


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def _same(a: np.ndarray, b: np.ndarray, tolerance: float, what: str) -> None:
    found = distance(a, b)
    assert found <= tolerance, f"{what}: relative distance {found:.2e} is over {tolerance:g}"


def check_nothing_deleted_changes_nothing(method: MethodClass, case: Case) -> None:
    m, data = method(FAST), case.data()
    state = trained(m, data)
    after = m.unlearn(state, data, np.empty(0, np.intp), rng())
    assert np.array_equal(after.weights, state.weights), "deleting nothing changed the model"
    assert after.n == state.n


def check_unlearn_is_closer_than_doing_nothing(method: MethodClass, case: Case) -> None:
    m, data = method(FAST), case.data()
    state = trained(m, data)
    after = m.unlearn(state, data, case.deleted, rng())
    goal = retrained(m, data, case.deleted, state)
    assert after.n == state.n - len(case.deleted)
    assert distance(after.weights, goal) < distance(state.weights, goal), "no better than nothing"


def check_one_request_or_two(method: MethodClass, case: Case) -> None:
    m, data = method(FAST), case.data()
    state = trained(m, data)
    first, second = case.deleted[:12], case.deleted[12:]
    goal = retrained(m, data, case.deleted, state)
    once = m.unlearn(state, data, case.deleted, rng())
    half = m.unlearn(state, data, first, rng())
    data.forget(first)
    twice = m.unlearn(half, data, second, rng())
    if method.name == "retrain":
        _same(twice.weights, once.weights, 1e-6, "one request or two")
    assert distance(twice.weights, goal) < distance(state.weights, goal), "two requests lost it"


def check_order_of_the_request_does_not_matter(method: MethodClass, case: Case) -> None:
    m, data = method(FAST), case.data()
    state = trained(m, data)
    one = m.unlearn(state, data, case.deleted, rng())
    other = m.unlearn(state, data, rng(3).permutation(case.deleted), rng())
    _same(one.weights, other.weights, case.tolerance, "the order of the request matters")


def check_row_added_twice_and_deleted_once(method: MethodClass, case: Case) -> None:
    m = method(FAST)
    doubled = case.data(case.rows(repeat=10))
    state = trained(m, doubled)
    copies = np.arange(400, 410)
    after = m.unlearn(state, doubled, copies, rng())
    if state.run is None:
        goal = METHODS["retrain"](m.settings).optimum(case.data(), rng())
    else:
        goal = retrained(m, doubled, copies, state)
    bound = 1e-6 if method.name == "retrain" else distance(state.weights, goal)
    _same(after.weights, goal, bound, "a row added twice and deleted once")


def check_paths_agree(method: MethodClass, case: Case) -> None:
    m, data = method(FAST), case.data()
    warm = trained(m, data)
    cold = replace(warm, statistics=None, spare=None)
    few = case.deleted[:4]
    goal = m.unlearn(cold, data, few, rng()).weights
    _same(
        m.unlearn(warm, data, few, rng()).weights, goal, case.tolerance, "warm, few rows, and cold"
    )
    if warm.statistics is not None:
        plain = replace(warm, statistics=replace(warm.statistics, factors=None))
        direct = m.unlearn(plain, data, few, rng()).weights
        _same(direct, goal, case.tolerance, "warm without factors, and cold")
    most = np.flatnonzero(rng(9).random(400) < 0.7)
    _same(
        m.unlearn(warm, data, most, rng()).weights,
        m.unlearn(cold, data, most, rng()).weights,
        case.tolerance,
        "warm and cold with most rows deleted",
    )


def check_deletion_batches(method: MethodClass, case: Case) -> None:
    m = len(case.deleted)
    for size in (1 + m // 2, m // 8, 7):
        batched, data = method(replace(FAST, deletion_batch_size=size)), case.data()
        state = trained(batched, data)
        after = batched.unlearn(state, data, case.deleted, rng())
        goal = retrained(batched, data, case.deleted, state)
        assert after.n == 400 - m
        assert distance(after.weights, goal) < distance(state.weights, goal), f"batches of {size}"


def check_inputs_are_never_written(method: MethodClass, case: Case) -> None:
    rows = case.rows()
    before = rows.X.copy(), rows.codes.copy()
    rows.X.flags.writeable = rows.codes.flags.writeable = False
    deleted = case.deleted
    deleted.flags.writeable = False
    m, data = method(FAST), case.data(rows)
    state = trained(m, data)
    m.unlearn(state, data, deleted, rng())
    assert np.array_equal(rows.X, before[0]), "the rows were written to"
    assert np.array_equal(rows.codes, before[1]), "the codes were written to"
    assert data.remaining.all(), "unlearn changed the data: that is for whoever activates the model"


def check_state_is_not_changed(method: MethodClass, case: Case) -> None:
    m, data = method(FAST), case.data()
    state = trained(m, data)
    before = {name: value.copy() for name, value in state.to_arrays().items()}
    first = m.unlearn(state, data, case.deleted, rng()).weights
    for name, value in state.to_arrays().items():
        assert np.array_equal(value, before[name]), f"unlearn changed the old state's {name}"
    again = m.unlearn(state, data, case.deleted, rng()).weights
    assert np.array_equal(first, again), "the same state and seed gave another model"


def check_same_seed_same_model(method: MethodClass, case: Case) -> None:
    noisy = method(replace(FAST, sigma=0.1))
    models = []
    for _ in range(2):
        data = case.data()
        state = trained(noisy, data, seed=5)
        models.append(noisy.unlearn(state, data, case.deleted, rng(6)).weights)
    assert np.array_equal(models[0], models[1]), "the same seeds gave two models"


def check_noise_is_fresh(method: MethodClass, case: Case) -> None:
    noisy, data = method(replace(FAST, sigma=0.1)), case.data()
    one, other = noisy.train(data, rng(1)), noisy.train(data, rng(2))
    assert distance(one.weights, other.weights) > 1e-3, "two seeds, the same noise"
    generator = rng(1)
    first, second = noisy.train(data, generator), noisy.train(data, generator)
    assert distance(first.weights, second.weights) > 1e-3, "two trainings shared their noise"
    if method.noise != "objective":
        state = trained(noisy, data)
        a = noisy.unlearn(state, data, case.deleted, rng(3)).weights
        b = noisy.unlearn(state, data, case.deleted, rng(4)).weights
        assert distance(a, b) > 1e-4, "two unlearnings shared their noise"


@dataclass(frozen=True)
class NoisyRuns:
    """Models (runs, k, d) published by independent runs of the same requests."""

    trained: np.ndarray
    first: np.ndarray  # after the first request
    second: np.ndarray  # after both
    retrained: np.ndarray  # trained on what both requests leave


RUNS = 24  # in 25 dimensions or more: a spread is known to 3 %, a correlation to 0.05
SIGMAS = (1.0, 10.0)  # the larger one is far off the optimum, where a wrong start shows


def noisy_runs(method: MethodClass, case: Case, sigma: float) -> NoisyRuns:
    """Train, forget 12 rows and then 18 others, and train without them: each with fresh seeds."""
    m = method(replace(FAST, sigma=sigma))
    models: list[list[np.ndarray]] = []
    for run in range(RUNS):
        data = case.data()
        state = trained(m, data, seed=4 * run)
        published = [state.weights]
        for request, deleted in enumerate((case.deleted[:12], case.deleted[12:]), 1):
            state = m.unlearn(state, data, deleted, rng(4 * run + request))
            data.forget(deleted)
            published.append(state.weights)
        models.append([*published, m.train(data, rng(4 * run + 3)).weights])
    return NoisyRuns(*np.array(models).transpose(1, 0, 2, 3))


def spread(models: np.ndarray) -> float:
    """Root mean square distance of models (runs, k, d) from their mean."""
    return float(np.sqrt(((models - models.mean(axis=0)) ** 2).sum(axis=(1, 2)).mean()))


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Of the deviations of two sets of models from their means."""
    a, b = one - one.mean(axis=0), other - other.mean(axis=0)
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def check_spread_is_that_of_retraining(method: MethodClass, case: Case) -> None:
    """At the same sigma, unlearned models differ from run to run as retrained ones do.

    Less, and the noise that hides who was deleted has been taken away again, as by a step from the
    released weights to the optimum; more, and it is no longer the noise that was asked for.
    """
    for sigma in SIGMAS:
        runs = noisy_runs(method, case, sigma)
        for models, when in ((runs.first, "one request"), (runs.second, "two requests")):
            ratio = spread(models) / spread(runs.retrained)
            assert 0.75 <= ratio <= 1.33, (
                f"at sigma={sigma:g} models differ {ratio:.2f} times as much from run to run after "
                f"{when} as retrained ones do; step from state.centre, and add noise once, with "
                "Method.release"
            )


def check_each_request_has_noise_of_its_own(method: MethodClass, case: Case) -> None:
    """Noise is drawn by `unlearn`, in full, and has nothing to do with the noise before.

    Not for noise in the objective, which is drawn once, at training.
    """
    if method.noise == "objective":
        return
    for sigma in SIGMAS:
        runs = noisy_runs(method, case, sigma)
        pairs = [
            (runs.trained, runs.first, "the trained model and the first request"),
            (runs.first, runs.second, "the first request and the second"),
        ]
        for one, other, what in pairs:
            found = correlation(one, other)
            assert abs(found) <= 0.25, (
                f"at sigma={sigma:g} the noise of {what} is correlated ({found:.2f}): each needs "
                "noise of its own"
            )
        m, data = method(replace(FAST, sigma=sigma)), case.data()
        state = trained(m, data)
        again = [m.unlearn(state, data, case.deleted, rng(run)).weights for run in range(RUNS)]
        ratio = spread(np.array(again)) / spread(runs.retrained)
        assert 0.75 <= ratio <= 1.33, (
            f"at sigma={sigma:g} unlearning the same rows from the same model again and again "
            f"varies {ratio:.2f} times as much as retraining: unlearn must draw all of its noise"
        )


def check_state_to_and_from_arrays(method: MethodClass, case: Case) -> None:
    m, data = method(replace(FAST, sigma=0.1)), case.data()
    state = trained(m, data)
    arrays = {name: np.array(value) for name, value in state.to_arrays().items()}
    assert all(isinstance(v, np.ndarray) and v.dtype != object for v in arrays.values())
    restored = State.from_arrays(state.method, arrays)
    _same(
        m.unlearn(restored, data, case.deleted, rng(3)).weights,
        m.unlearn(state, data, case.deleted, rng(3)).weights,
        case.tolerance,
        "a state from arrays and the original",
    )


# --- sources -----------------------------------------------------------------------------------


def check_engine(make: Callable[[Rows, int], Engine], cases: list[Case] | None = None) -> None:
    """The contract of an engine: it computes what the formulae say, of the rows that remain."""
    for case in cases or CASES:
        rows, deleted = case.rows(), case.deleted
        rows.X.flags.writeable = rows.codes.flags.writeable = False
        data = make(rows, case.n_classes)
        assert isinstance(data, Engine), "an engine derives from unfit.engines.base.Engine"
        W = rng(1).standard_normal((data.k, data.d)) / 10
        _check_sums(data, rows, W, case.tolerance)
        mask = data.without(deleted)
        assert data.remaining.all(), "`without` changed what remains"
        before = data.value_gradient_sum(W, mask), data.hessian_sum(W, mask)
        tried = data.shared()
        tried.forget(deleted)
        assert data.n_remaining == 400, "an engine from `shared` shares its mask"
        _same(tried.gradient_sum(W), before[0][1], case.tolerance, "a mask and `forget`")
        _same(tried.hessian_sum(W), before[1], case.tolerance, "a mask and `forget`")
        _check_sums(tried, rows.take(np.flatnonzero(mask)), W, case.tolerance)
        left = pickle.loads(pickle.dumps(tried))
        assert left.erased.sum() == len(deleted), "a pickle holds rows that were forgotten"
        _same(left.gradient_sum(W), tried.gradient_sum(W), case.tolerance, "a pickle")
        if isinstance(data, SgdEngine):
            layout = data.lay_out(rng(2).permutation(400).astype(np.int32))
            assert (layout.n, layout.d) == (400, data.d)
        few = data.miniature(12)
        assert (few.k, few.n_remaining, few.dtype) == (data.k, 12, data.dtype)


def _check_sums(data: Engine, rows: Rows, W: np.ndarray, tolerance: float) -> None:
    """Sums over what remains against the formulae, in float64, on those rows."""
    k, n = len(W), len(rows)
    X = np.ones((n, rows.d))
    X[:, : rows.X.shape[1]] = rows.X
    margin, target = X @ W.T, (rows.targets(k)).astype(np.float64)
    loss = rows.loss
    value, gradient = data.value_gradient_sum(W)
    _same(value, loss.value(margin, target).sum(axis=0), tolerance, "the sum of values")
    goal = loss.slope(margin, target).T @ X
    _same(gradient, goal, tolerance, "the sum of gradients")
    curvature = loss.curvature(margin, target)
    hessian = np.array([(X * curvature[:, c, None]).T @ X for c in range(k)])
    _same(data.hessian_sum(W), hessian, tolerance, "the sum of Hessians")
    _same(data.gram_sum(), X.T @ X, tolerance, "the Gram matrix")
    v = rng(3).standard_normal(data.d)
    found, product = data.gradient_and_products(W)
    _same(found, goal, tolerance, "the gradient beside products")
    for c, factor in enumerate(data.factors(W, None, 0.5)):
        _same(product(c, v), hessian[c] @ v, tolerance, "a product with the Hessian")
        image = hessian[c] @ factor.solve(v) + 0.5 * factor.solve(v)
        _same(image, v, 10 * tolerance, "a factor and its Hessian")
    where = np.flatnonzero(data.remaining)
    assert data.n_remaining == n == len(where), "n_remaining is not the number of rows that remain"
    taken = data.take(where[::7])
    assert np.array_equal(taken.X, rows.X[::7]), "`take` gives other rows"
    assert np.array_equal(taken.codes, rows.codes[::7]), "`take` gives other classes"
    some = data.sums_of(W, where[::7])
    expected = loss.slope(margin, target)[::7].T @ X[::7]
    _same(some[0], expected, tolerance, "the gradient of some rows")
    _same(data.margins(W, where[::7]), margin[::7], tolerance, "margins")


def check_loss(loss: type[Loss]) -> None:
    """The contract of a loss: it is convex, its formulae are each other's derivatives, for numbers,
    arrays and kernels alike; and rows can be unlearned with it."""
    made = loss()
    margin = np.linspace(-6, 6, 4001)  # no kink is hit by a difference but by chance
    step = margin[1] - margin[0]
    for target in (0.0, 1.0):
        t = np.full_like(margin, target)
        value, slope, curvature = (f(margin, t) for f in (made.value, made.slope, made.curvature))
        assert np.isfinite(value).all(), "the value is not finite"
        middle = (value[2:] - value[:-2]) / (2 * step)
        gap = np.abs(middle - slope[1:-1]).max()
        assert gap <= 1e-2 * max(1.0, np.abs(slope).max()), "the slope is not that of the value"
        rise = (slope[2:] - slope[:-2]) / (2 * step)
        kinks = np.abs(rise - curvature[1:-1]) > 1e-2 * max(1.0, curvature.max())
        assert kinks.mean() <= 0.01, "the curvature is not the slope of the slope"
        assert curvature.min() >= 0, "a loss must be convex"
        assert curvature.max() <= loss.max_curvature * (1 + 1e-9), "max_curvature is exceeded"
        assert np.abs(slope).max() <= loss.max_slope * (1 + 1e-9), "max_slope is exceeded"
        assert float(made.slope(margin[7], target)) == slope[7], "a number and an array differ"
    chance = made.probability(margin)
    assert ((chance >= 0) & (chance <= 1)).all(), "a probability is between 0 and 1"
    assert (np.diff(chance) >= 0).all(), "the probability falls with the margin"
    for case in [Case(dtype, k, made) for dtype in ("float32", "float64") for k in (2, 3)]:
        _check_kernels(case)
        retrain = METHODS["retrain"]
        check_nothing_deleted_changes_nothing(retrain, case)
        check_one_request_or_two(retrain, case)
        check_row_added_twice_and_deleted_once(retrain, case)
        check_rows_in_another_order_give_the_same_model(retrain, case)
        check_unlearn_is_closer_than_doing_nothing(METHODS["fisher"], case)


def _check_kernels(case: Case) -> None:
    """Compiled sums against the formulae in NumPy."""
    data, rows = case.data(), case.rows()
    W = rng(1).standard_normal((data.k, data.d))
    _check_sums(data, rows, W, case.tolerance)
    gradient, _ = gradient_and_products(rows, W)
    _same(data.sums_of(W, np.arange(400))[0], gradient, case.tolerance, "narrow sums")


def check_rows_in_another_order_give_the_same_model(method: MethodClass, case: Case) -> None:
    m, order = method(FAST), rng(4).permutation(400)
    one, other = case.data(), case.data(case.rows().take(order))
    deleted = np.flatnonzero(np.isin(order, case.deleted))
    first = m.unlearn(trained(m, one), one, case.deleted, rng())
    second = m.unlearn(trained(m, other), other, deleted, rng())
    _same(first.weights, second.weights, 1e-6, "rows in another order")


def check_source(location: "Location", expected: "pa.Table | None" = None) -> None:
    """The contract of a source, checked on the rows at a location (at least two, in any format).

    Columns have distinct names; blocks hold those that are asked for, in that order, each of one
    type; reading or opening a source again gives the same rows, in the same order unless the source
    says that it has none; a file that does not exist is an error that names it. expected: what the
    rows must be, as text.
    """
    from unfit.data.sources import Source, open_source
    from unfit.errors import BadInput

    source = open_source(location)
    assert isinstance(source, Source), f"{source!r} is not a unfit.data.sources.Source"
    assert isinstance(source.name, str), "a source needs a name for messages"
    assert source.name, "the name of a source is empty"
    names = source.columns()
    assert names, f"{source.name} has no columns"
    assert len(set(names)) == len(names), f"{source.name} has two columns of one name"
    whole = _texts(source, names, None)
    rows = len(next(iter(whole.values())))
    assert rows >= 2, f"{source.name} has {rows} rows; the contract needs at least two"
    for again, what in ((source, "reading"), (open_source(location), "opening")):
        found = _texts(again, names, None)
        if not source.ordered:
            assert _sorted(found) == _sorted(whole), f"{what} it again gives other rows"
        else:
            assert found == whole, f"{what} it again gives other rows, or another order"
    for some in ([names[-1]], names[::-1]):
        part = _texts(source, some, some)
        if source.ordered:
            assert part == {name: whole[name] for name in some}, f"rows differ for {some}"
        else:
            assert _sorted(part) == _sorted({name: whole[name] for name in some})
    if expected is not None:
        from unfit.data.text import as_text

        wanted = {name: as_text(expected[name].combine_chunks()).to_pylist() for name in names}
        assert _sorted(whole) == _sorted(wanted), f"{source.name} gives other rows than expected"
        assert not source.ordered or whole == wanted, f"{source.name} gives another order"
    if location.path is not None:
        absent = location.path.with_name(f"absent-{location.path.name}")
        said = f"{absent.name} does not exist and was opened"
        try:
            open_source(replace(location, path=absent))
        except BadInput as error:
            said = "" if absent.name in str(error) else f"the error names no file: {error}"
        assert not said, said


def _texts(
    source: "Source", names: list[str], asked: list[str] | None
) -> dict[str, list[str | None]]:
    """The values of all blocks as text, by column."""
    import pyarrow as pa

    from unfit.data.text import as_text

    found: dict[str, list[str | None]] = {name: [] for name in names}
    types: dict[str, object] = {}
    for batch in source.blocks(asked):
        assert isinstance(batch, pa.RecordBatch), "blocks must be Arrow record batches"
        held = list(batch.schema.names)
        assert held == names, f"a block holds the columns {held} instead of {names}"
        for name in names:
            kind = batch.column(name).type
            if not pa.types.is_null(kind):
                known = types.setdefault(name, kind)
                assert kind == known, (
                    f"column {name!r} is {known} in one block and {kind} in another"
                )
            found[name] += as_text(batch.column(name)).to_pylist()
    return found


def _sorted(columns: dict[str, list[str | None]]) -> list[tuple[str, ...]]:
    rows = zip(*columns.values(), strict=True)
    return sorted(tuple("" if text is None else f"={text}" for text in row) for row in rows)


# --- policies -----------------------------------------------------------------------------------


def check_policy(policy: "type[Policy]") -> None:
    """The contract of a policy: it is explained, it is pure, and it decides whatever is known."""
    from unfit.knobs import knobs
    from unfit.lifecycle.policy import Verdict

    name = policy.__name__
    assert is_dataclass(policy), f"{name} is not a dataclass"
    assert policy.__dataclass_params__.frozen, f"{name} is not frozen"  # type: ignore[attr-defined]
    assert policy.title, f"{name} has no title"
    assert policy.description.endswith("."), f"the description of {name} is not a sentence"
    for knob in knobs(policy):
        assert knob.default is not MISSING, f"{name}.{knob.name} has no default"
        assert knob.help, f"{name}.{knob.name} has no help"
    made = policy()
    assert _is_line(made.condition()), f"{name}.condition() is not one line"
    for facts in _facts():
        verdict = made.decide(facts)
        assert isinstance(verdict, Verdict), f"{name}.decide does not return a Verdict"
        assert isinstance(verdict.retrain, bool), f"{name} does not say whether to retrain"
        assert _is_line(verdict.reason), f"the reason of {name} is not one line"
        assert SECRET not in verdict.reason, f"{name} names a class that may be erased"
        assert policy().decide(facts) == verdict, f"{name} decides differently on the same facts"


SECRET = "a class with a telling name"


def _facts() -> "Iterator[Facts]":
    """Nothing measured, everything measured, extremes."""
    from unfit.lifecycle.policy import Facts

    for rows, deleted in ((1, 0), (1000, 1), (1000, 1000)):
        for emptied in ((), (SECRET,)):
            nothing = Facts(rows=rows, deleted=deleted, emptied=emptied)
            yield nothing
            for value in (0.0, 0.5, 1.0):
                yield replace(
                    nothing,
                    initial_accuracy=0.5,
                    accuracy=value,
                    acc_err_init=100 * value,
                    slope=2.0,
                    estimate=200 * value,
                    majority=0.5,
                    log_loss=value,
                    auc=value,
                    log_loss_change=value - 0.5,
                    distance=value,
                )


def _is_line(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text
