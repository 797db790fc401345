"""A guide that runs along with a stream: what it expects is so, what it saves, when it gives up."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import unfit
from unfit.core.factors import rough_inverse
from unfit.core.objective import Rows
from unfit.core.penalty import Penalty
from unfit.methods import METHODS, Settings
from unfit.methods.minimum import Objective, minimize
from unfit.methods.running_guide import Lost, RunningGuide, price_of_guide
from watched import Watched

RESIDUAL = 1e-3
N = 6000


def people(classes=2, weight=None, columns=80):
    """Rows whose classes overlap, so that a few of them tell the curvature."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, columns)) / np.sqrt(np.arange(1, columns + 1))
    margins = X @ rng.standard_normal((columns, classes)) + 0.5 * rng.gumbel(size=(N, classes))
    codes = np.argmax(margins, axis=1).astype(np.int32)
    rows = Rows(X.astype(np.float32), codes, True, sample_weight=weight)
    return Watched(rows, classes)


def rng():
    return np.random.default_rng(0)


def method(residual=RESIDUAL, sample=1, **options):
    known = {"residual": residual, "sample": sample, **options}
    return METHODS["newton"](Settings(tol=residual, options=tuple(known.items())))


def opened(data, newton):
    """The state after training to the residual, prepared."""
    found = minimize(Objective(data=data, mask=None, penalty=Penalty(1e-4)), newton.settings.tol)
    state = newton.train(data, rng())
    return newton.prepare(replace(state, weights=found.weights), data)


def left_at(data, weights, l2=1e-4):
    """The length of the mean gradient of any problem, in float64 and by nothing of ours."""
    rows = data.take(data.remaining)
    X = np.column_stack([rows.X.astype(np.float64), np.ones(len(rows))])
    most = 0.0
    for c, w in enumerate(weights):
        t = rows.codes == (1 if len(weights) == 1 else c)
        gradient = X.T @ (1 / (1 + np.exp(-X @ w)) - t) + l2 * len(rows) * w
        most = max(most, np.linalg.norm(gradient))
    return most / len(rows)


def stream_of(data, newton, batches):
    """What is left after each request, and passes over all rows that each took."""
    state, left, passes = opened(data, newton), [], []
    for gone in batches:
        before = data.rows_read
        state = newton.unlearn(state, data, gone, rng())
        state = newton.prepare(state, data)
        data.forget(gone)
        passes.append((data.rows_read - before) / N)
        left.append(left_at(data, state.weights))
    return state, np.array(left), np.array(passes)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("law", ["random", "one class", "largest"])
def test_a_stream_stays_within_the_residual_and_takes_fewer_passes_than_requests(classes, law):
    data = people(classes)
    rows = data.take(data.remaining)
    order = {
        "random": np.random.default_rng(1).permutation(N),
        "one class": np.random.default_rng(1).permutation(np.flatnonzero(rows.codes == 0)),
        "largest": np.argsort(-np.abs(rows.X[:, 0])),
    }[law]
    state, left, passes = stream_of(data, method(), np.split(order[:500], 50))
    assert state.running_guide is not None
    assert left.max() <= RESIDUAL
    assert np.median(passes) < 0.5  # most requests take no pass at all
    assert passes.sum() < 50


@pytest.mark.parametrize("sample", [4, 64])
def test_a_guide_that_leads_well_at_first_is_not_believed_for_ever(sample):
    """What it leaves grows as one class leaves and the weights move; corrections of what training
    has left, in other directions, say nothing of that."""
    data, newton = people(), method(sample=sample)
    members = np.flatnonzero(data.codes == 0)
    order = members[np.argsort(data.rows.X[members, 0])]
    state, left, passes = stream_of(data, newton, np.split(order[:1500], 100))
    assert left.max() <= RESIDUAL
    assert 2 < passes.sum() < 70
    assert state.running_guide.share is not None


def with_rare_groups(seed, n=3000, groups=8):
    """Columns of numbers, and indicators of groups that one row in a hundred belongs to."""
    rng = np.random.default_rng(seed)
    numbers, belongs = rng.standard_normal((n, 15)), rng.random((n, groups)) < 0.01
    X = np.column_stack([numbers, belongs]).astype(np.float32)
    margins = X @ rng.standard_normal(15 + groups) + rng.logistic(size=n)
    return Watched(Rows(X, (margins > 0).astype(np.int32), True), 2), belongs


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sample", [2, 16])
def test_columns_that_few_rows_have_are_not_stepped_in_blindly(seed, sample):
    """Where the sample has no row of a group, the guide expects no curvature, and steps far."""
    data, belongs = with_rare_groups(seed)
    rest, group = np.flatnonzero(~belongs.any(axis=1)), np.flatnonzero(belongs[:, 0])
    order = np.random.default_rng(seed).permutation(rest)[:150]
    batches = np.split(order, 30)
    batches.insert(20, group[:6])  # after requests of others alone
    batches += np.array_split(np.setdiff1d(np.arange(3000), np.concatenate(batches))[:100], 20)
    _, left, passes = stream_of(data, method(sample=sample), batches)
    assert left.max() <= RESIDUAL
    assert passes.sum() < 2 * len(batches)


def test_it_saves_passes():
    """What it saves: NEWTON with nothing prepared, to the same residual, takes twice the passes."""
    batches = np.split(np.random.default_rng(1).permutation(N)[:500], 50)
    _, _, guided = stream_of(people(), method(), batches)
    data, plain = people(), method(sample=0)
    state, passes = replace(opened(data, plain), statistics=None), []
    for gone in batches:
        before = data.rows_read
        state = plain.unlearn(state, data, gone, rng())
        data.forget(gone)
        passes.append((data.rows_read - before) / N)
    assert guided.sum() < 0.5 * np.sum(passes)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000),
    classes=st.integers(2, 3),
    residual=st.sampled_from([3e-3, 1e-4, 1e-6]),
    share=st.sampled_from([0.001, 0.01, 0.05]),
)
def test_what_is_expected_bounds_what_is_left(seed, classes, residual, share):
    data = people(classes)
    order = np.random.default_rng(seed).permutation(N)
    m = max(1, int(share * N))
    batches = [order[i * m : (i + 1) * m] for i in range(8)]
    _, left, _ = stream_of(data, method(residual), batches)
    assert left.max() <= 1.1 * residual  # it is expected, not measured, where no pass is taken


def test_many_rows_at_once_are_solved_for():
    data, newton = people(), method()
    state = opened(data, newton)
    gone = np.arange(N // 3)
    state = newton.unlearn(state, data, gone, rng())
    assert state.running_guide.share is None  # what it has learned is given up
    data.forget(gone)
    assert left_at(data, state.weights) <= RESIDUAL


def test_a_guide_that_misleads_is_found_out():
    """Its steps are too long, or lead nowhere: the solve without it measures what is left."""
    data, newton = people(), method(residual=1e-6)
    state = opened(data, newton)
    known = state.running_guide
    misled = replace(known, inverses=[np.float32(30) * P for P in known.inverses])
    gradient = Objective(data=data, mask=None, penalty=Penalty(1e-4)).gradient
    with pytest.raises(Lost):
        misled.followed(state.centre, np.ones_like(state.centre), gradient, 1e-6 * N)
    gone = np.arange(25)
    after = newton.unlearn(replace(state, running_guide=misled), data, gone, rng())
    data.forget(gone)
    assert left_at(data, after.weights) <= 1e-6
    assert after.running_guide.beyond > 0


def test_a_better_guide_is_made_when_passes_have_paid_for_it():
    """Until then fewer passes were lost by the old one than the better one costs, and those of one
    request; and what there is in the end leads."""
    data, newton = people(), method(residual=1e-6)
    state, passes = opened(data, newton), []
    state = replace(state, running_guide=replace(state.running_guide, price=20.0))
    made = 0
    for gone in np.split(np.arange(400), 40):
        known, before = state.running_guide, data.rows_read
        state = newton.unlearn(state, data, gone, rng())
        data.forget(gone)
        after = state.running_guide
        passes.append((data.rows_read - before) / N)
        assert known.beyond < known.price
        assert after.beyond - known.beyond <= round(passes[-1] * N / data.n_remaining)
        assert after.due == (after.beyond >= after.price)
        state = newton.prepare(state, data)
        if not after.due:
            assert state.running_guide is after
            continue
        made += 1
        assert state.running_guide.beyond == 0
        assert state.running_guide.per_column == min(
            2 * after.per_column, -(-data.n_remaining // 81)
        )
        assert not np.array_equal(state.running_guide.inverses[0], after.inverses[0])
    assert made
    assert np.mean(passes[-10:]) < 2


def test_the_price_counts_flops_against_those_of_a_pass():
    sizes = Objective(data=people(), mask=None, penalty=Penalty(1e-4)).sizes
    assert price_of_guide(sizes, 1) < price_of_guide(sizes, 5)
    assert price_of_guide(replace(sizes, n=100 * N, numbers=100 * sizes.numbers), 1) < 0.05 * (
        price_of_guide(sizes, 1)
    )


def test_after_other_weights_a_pass_is_taken_first():
    data, newton = people(), method()
    state = opened(data, newton)
    for gone in np.split(np.arange(60), 6):
        state = newton.unlearn(state, data, gone, rng())
        data.forget(gone)
    state = replace(state, running_guide=state.running_guide.unseen())
    before = data.rows_read
    state = newton.unlearn(state, data, np.arange(60, 61), rng())
    assert data.rows_read - before >= len(data) - 61


def test_sample_weights_count():
    weight = np.random.default_rng(3).uniform(0.2, 3.0, N)
    weighted, newton, l2 = people(weight=weight), method(), 1e-4
    state = opened(weighted, newton)
    for gone in np.split(np.arange(200), 20):
        state = newton.unlearn(state, weighted, gone, rng())
        weighted.forget(gone)
    assert state.running_guide is not None
    ones = np.column_stack([weighted.rows.X[200:].astype(np.float64), np.ones(N - 200)])
    w, t, s = state.weights[0], weighted.rows.codes[200:] == 1, weight[200:]
    gradient = ones.T @ (s * (1 / (1 + np.exp(-ones @ w)) - t)) + l2 * s.sum() * w
    assert np.linalg.norm(gradient) / s.sum() <= RESIDUAL


def test_the_rough_inverse_is_one():
    data = people()
    objective = Objective(data=data, mask=None, penalty=Penalty(1e-4))
    (H,) = objective.sampled_hessians(np.zeros((1, data.d)), 5)
    P = rough_inverse(H)
    assert P.dtype == np.float32
    np.testing.assert_array_equal(P, P.T)
    np.testing.assert_allclose(P @ H, np.eye(data.d), atol=1e-3)


def test_without_digits_in_float32_it_is_of_float64():
    vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))[0]
    H = (vectors * np.geomspace(1e-9, 1, 40)) @ vectors.T
    H = (H + H.T) / 2
    P = rough_inverse(H)
    assert P.dtype == np.float64
    np.testing.assert_allclose(P @ H, np.eye(40), atol=1e-5)


def test_the_estimator_runs_it_and_pickles_hold_nothing_of_it():
    data = people()
    options = {"residual": RESIDUAL, "sample": 1}
    clf = unfit.LogisticRegression("newton", options=options, random_state=0)
    clf.fit(data.rows.X, data.codes).prepare()
    for row in range(5):
        clf.unlearn([row])
    assert clf._state.running_guide is not None
    again = pickle.loads(pickle.dumps(clf))
    assert again._state.running_guide is None
    np.testing.assert_array_equal(again.coef_, clf.coef_)
    again.unlearn([7])
    data.forget(np.array([0, 1, 2, 3, 4, 7]))
    weights = np.column_stack([again.coef_, again.intercept_])
    assert left_at(data, weights) <= RESIDUAL


@pytest.mark.parametrize("kind", ["dense", "sparse", "torch"])
def test_other_rows_are_forgotten_as_well(kind):
    """On a device by the same guide; sparse rows, of which no Hessian is made, are solved for."""
    if kind == "torch":
        pytest.importorskip("torch")
    data, gone = people(), np.arange(40)
    X = scipy.sparse.csr_array(data.rows.X) if kind == "sparse" else data.rows.X
    options = {"residual": RESIDUAL, "sample": 4}
    engine = "torch" if kind == "torch" else None
    clf = unfit.LogisticRegression("newton", engine=engine, options=options, random_state=0)
    clf.fit(X, data.codes).prepare()
    for row in gone:
        clf.unlearn([row])
    assert (clf._state.running_guide is not None) == (kind != "sparse")
    data.forget(gone)
    assert left_at(data, np.column_stack([clf.coef_, clf.intercept_])) <= RESIDUAL


@pytest.mark.parametrize("options", [{"sample": 1}, {"sample": 1, "residual": 1e-3, "steps": 2}])
def test_a_guide_that_would_not_serve_is_refused(options):
    with pytest.raises(ValueError, match="give `residual`"):
        METHODS["newton"](Settings(options=tuple(options.items())))


def test_what_is_known_of_other_weights_is_not_kept_when_certificates_polish():
    data = people()
    clf = unfit.LogisticRegression(
        "newton", options={"residual": RESIDUAL, "sample": 4}, epsilon=1.0, delta=1e-5, noise=1e-3
    )
    clf.fit(data.rows.X, data.codes).prepare()
    for row in range(6):
        clf.unlearn([row])
        known = clf._state.running_guide
        assert known is None or known.since is None or known.since.left is None


def test_nothing_is_counted_against_a_guide_that_was_not_followed():
    data, newton = people(), method()
    state = opened(data, newton)
    after = newton.unlearn(state, data, np.arange(N // 3), rng())
    assert after.running_guide.beyond == 0


def test_nothing_of_it_is_stored():
    data, newton = people(), method()
    state = newton.unlearn(opened(data, newton), data, np.arange(20), rng())
    assert state.running_guide is not None
    assert set(state.to_arrays()) <= {"weights", "n"}


def test_engines_without_hessians_are_solved_for(monkeypatch):
    data, newton = people(), method()
    monkeypatch.setattr(Watched, "forms_hessian", False)
    state = newton.prepare(newton.train(data, rng()), data)
    assert state.running_guide is None


def test_it_begins_with_a_pass_and_never_trusts_what_it_has_not_seen():
    """A step by a guide that nothing is known of may leave more than it answers."""
    identity = [np.eye(3, dtype=np.float32)]
    guide = RunningGuide(inverses=identity, per_column=1, price=5.0)
    seen = []

    def gradient(weights):  # of a quadratic with curvature 20, where the guide expects 1
        seen.append(weights)
        return 20.0 * (weights - 2.0)

    with pytest.raises(Lost) as lost:
        guide.followed(np.ones((1, 3)), np.full((1, 3), 0.1), gradient, 1.0)
    assert len(seen) == lost.value.passes == 2


def test_steps_that_are_no_numbers_are_not_taken():
    guide = RunningGuide(inverses=[np.full((3, 3), np.nan)], per_column=1, price=5.0)
    with pytest.raises(Lost):
        guide.followed(np.ones((1, 3)), np.ones((1, 3)), lambda weights: weights, 10.0)


def test_while_steps_leave_too_much_every_request_takes_a_pass():
    """Curvature is 1.9 where the guide expects 1, in more directions than secants are kept for."""
    random, d = np.random.default_rng(0), 60
    guide = RunningGuide(inverses=[np.eye(d, dtype=np.float32)], per_column=1, price=100.0)
    weights, optimum, passes = np.zeros((1, d)), np.zeros((1, d)), []

    def gradient(at):
        passes[-1] += 1
        return 1.9 * (at - optimum)

    for _ in range(12):
        of_leaving = random.standard_normal((1, d))
        optimum = optimum + of_leaving / 1.9
        passes.append(0)
        weights, guide = guide.followed(weights, of_leaving, gradient, 100.0)
    assert guide.share > 0.7
    assert min(passes) >= 1
    assert guide.beyond >= 10
