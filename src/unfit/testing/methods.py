"""The contract of a method: what `unlearn` must do for every one of them."""

from dataclasses import replace

import numpy as np

from unfit.methods import METHODS, State
from unfit.testing.cases import (
    CASES,
    FAST,
    Case,
    Check,
    MethodClass,
    distance,
    protect,
    require_same,
    retrained,
    rng,
    trained,
)
from unfit.testing.noise import (
    check_each_request_has_noise_of_its_own,
    check_noise_is_fresh,
    check_spread_is_that_of_retraining,
)

EXACT = ("newton", "retrain")  # methods that end at the optimum itself


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
    """Run the whole contract; the first check that fails raises AssertionError and says why.

    By default on dense rows; SPARSE_CASES are sparse ones, for methods that make no Hessian.
    """
    for case in cases or CASES:
        for check in method_checks():
            check(method, case)


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
    if method.name in EXACT:
        require_same(twice.weights, once.weights, 1e-6, "one request or two")
    assert distance(twice.weights, goal) < distance(state.weights, goal), "two requests lost it"


def check_order_of_the_request_does_not_matter(method: MethodClass, case: Case) -> None:
    m, data = method(FAST), case.data()
    state = trained(m, data)
    one = m.unlearn(state, data, case.deleted, rng())
    other = m.unlearn(state, data, rng(3).permutation(case.deleted), rng())
    require_same(one.weights, other.weights, case.tolerance, "the order of the request matters")


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
    bound = 1e-6 if method.name in EXACT else distance(state.weights, goal)
    require_same(after.weights, goal, bound, "a row added twice and deleted once")


def check_paths_agree(method: MethodClass, case: Case) -> None:
    m, data = method(FAST), case.data()
    warm = trained(m, data)
    cold = replace(warm, statistics=None, spare=None)
    few = case.deleted[:4]
    goal = m.unlearn(cold, data, few, rng()).weights
    require_same(
        m.unlearn(warm, data, few, rng()).weights, goal, case.tolerance, "warm, few rows, and cold"
    )
    if warm.statistics is not None:
        plain = replace(warm, statistics=replace(warm.statistics, factors=None))
        direct = m.unlearn(plain, data, few, rng()).weights
        require_same(direct, goal, case.tolerance, "warm without factors, and cold")
    most = np.flatnonzero(rng(9).random(400) < 0.7)
    require_same(
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
    before = rows.dense().copy(), rows.codes.copy()
    protect(rows)
    deleted = case.deleted
    deleted.flags.writeable = False
    m, data = method(FAST), case.data(rows)
    state = trained(m, data)
    m.unlearn(state, data, deleted, rng())
    assert np.array_equal(rows.dense(), before[0]), "the rows were written to"
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


def check_state_to_and_from_arrays(method: MethodClass, case: Case) -> None:
    m, data = method(replace(FAST, sigma=0.1)), case.data()
    state = trained(m, data)
    arrays = {name: np.array(value) for name, value in state.to_arrays().items()}
    assert all(isinstance(v, np.ndarray) and v.dtype != object for v in arrays.values())
    restored = State.from_arrays(state.method, arrays)
    require_same(
        m.unlearn(restored, data, case.deleted, rng(3)).weights,
        m.unlearn(state, data, case.deleted, rng(3)).weights,
        case.tolerance,
        "a state from arrays and the original",
    )


def check_rows_in_another_order_give_the_same_model(method: MethodClass, case: Case) -> None:
    m, order = method(FAST), rng(4).permutation(400)
    one, other = case.data(), case.data(case.rows().take(order))
    deleted = np.flatnonzero(np.isin(order, case.deleted))
    first = m.unlearn(trained(m, one), one, case.deleted, rng())
    second = m.unlearn(trained(m, other), other, deleted, rng())
    require_same(first.weights, second.weights, 1e-6, "rows in another order")
