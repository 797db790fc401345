"""The engine "torch" on the CPU: what the engine "cpu" computes, streamed or not; its faults."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import unfit
from unfit.core.factors import Inverse
from unfit.core.losses import Loss
from unfit.core.objective import Rows
from unfit.core.sgd import Plan
from unfit.engines.base import make_engine
from unfit.engines.cpu import CpuEngine
from unfit.errors import BadInput, Unavailable
from unfit.testing import CASES, Case, check_engine

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # its threads would fight with those of other tests

from unfit.engines import auto  # noqa: E402
from unfit.engines.device import fused, memory, sums  # noqa: E402
from unfit.engines.device.engine import Settings, TorchEngine  # noqa: E402
from unfit.engines.device.factors import DeviceInverse  # noqa: E402

CANARY = 12345.671875  # exact in float32


class PseudoHuber(Loss):
    """A loss that comes as formulae of NumPy alone."""

    name, title, max_curvature = "pseudo-huber-here", "", 1.0

    @staticmethod
    def value(margin, target):
        return np.sqrt(1.0 + (margin - (2.0 * target - 1.0)) ** 2) - 1.0

    @staticmethod
    def slope(margin, target):
        error = margin - (2.0 * target - 1.0)
        return error / np.sqrt(1.0 + error**2)

    @staticmethod
    def curvature(margin, target):
        return (1.0 + (margin - (2.0 * target - 1.0)) ** 2) ** -1.5


def some_rows(n=900, p=33, classes=2, dtype="float32", seed=0, **kinds):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, p)) / np.sqrt(p)).astype(dtype)
    return Rows(X, rng.integers(0, classes, n).astype(np.int32), True, **kinds)


def same(one, other, tolerance=1e-12):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())


def sums_of(engine, W, V, mask):
    values, gradients, products = engine.value_gradient_products(W, mask)
    return values, gradients, products(np.arange(len(W)), V)


@pytest.mark.parametrize("memory", [None, "20kB", "100kB", 0])
@pytest.mark.parametrize("classes", [2, 4])
def test_float32_rows_are_summed_in_float64_wherever_they_are(classes, memory):
    rows = some_rows(classes=classes)
    rng = np.random.default_rng(1)
    ours, theirs = TorchEngine(rows, classes, memory=memory), CpuEngine(rows, classes)
    assert ours._there.streams == (memory is not None)
    W = rng.standard_normal((ours.k, ours.d))
    V, mask = rng.standard_normal(W.shape), rng.random(900) < 0.7
    for keep in (None, mask):
        same(sums_of(ours, W, V, keep), sums_of(theirs, W, V, keep))
        ours.precise = theirs.precise = True
        same([ours.hessian_sum(W, keep)], [theirs.hessian_sum(W, keep)])
        ours.precise = theirs.precise = False
        same([ours.hessian_sum(W, keep)], [theirs.hessian_sum(W, keep)], 1e-6)
        same([ours.gram_sum(keep)], [theirs.gram_sum(keep)], 1e-6)


def test_streaming_passes_the_contract():
    class Streaming(TorchEngine):
        def __init__(self, rows, n_classes):
            super().__init__(rows, n_classes, memory="10kB")

    check_engine(Streaming, CASES[:1] + CASES[-1:])


def test_a_loss_of_a_package_is_evaluated_on_the_host():
    check_engine(TorchEngine, [Case("float64", 3, PseudoHuber())])


def test_rows_left_out_do_not_count_whatever_they_hold():
    rows = some_rows()
    rows.X[5] = np.inf
    mask = np.arange(900) != 5
    W = np.ones((1, 34))
    values, _ = TorchEngine(rows, 2).value_gradient_sum(W, mask)
    without = TorchEngine(rows.take(np.flatnonzero(mask)), 2)
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values, without.value_gradient_sum(W)[0])


def test_erased_rows_are_in_no_copy_and_in_no_pickle():
    for budget in (None, "40kB"):
        rows = some_rows()
        rows.X[[7, 850]] = CANARY
        engine = TorchEngine(rows, 2, memory=budget)
        engine.gradient_sum(np.zeros((1, 34)))
        stage = engine._there._stage
        held = [engine._there.X, *stage._pinned, *stage._there]
        assert any((one == CANARY).any() for one in held)
        gone = np.array([7, 850])
        engine.forget(gone)
        engine.hessian_sum(np.zeros((1, 34)))
        engine.erase(gone)
        held = [engine._there.X, *stage._pinned, *stage._there]
        assert not any((one == CANARY).any() for one in held)
        kept = pickle.dumps(engine)
        assert np.float32(CANARY).tobytes() not in kept
        left = pickle.loads(kept)
        assert isinstance(left, TorchEngine)
        W = np.ones((1, 34))
        same([left.gradient_sum(W)], [engine.gradient_sum(W)])


def test_codes_and_weights_of_erased_rows_are_zeroed_on_the_device():
    engine = TorchEngine(some_rows(sample_weight=np.full(900, CANARY)), 2)
    gone = np.flatnonzero(engine.codes == 1)[:2]
    engine.gradient_sum(np.zeros((1, 34)), np.arange(900) < 800)
    engine.forget(gone)
    engine.erase(gone)
    assert not engine._sums.codes[gone].any()
    assert not engine._sample_weight[gone].any()
    assert engine._masked is None


def test_settings_go_with_an_engine_and_its_pickle(monkeypatch):
    rows = some_rows()
    engine = TorchEngine(rows, 2, device="cpu", memory="20kB")
    for other in (engine.beside(rows), engine.miniature(50), pickle.loads(pickle.dumps(engine))):
        assert isinstance(other, TorchEngine)
        assert other._there.budget == 20_000
        assert other._settings == engine._settings
    plain = TorchEngine(rows, 2)
    assert plain.made_by == "torch"
    kept = pickle.dumps(Settings("cuda:1", "20kB"))  # read where no GPU is
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pickle.loads(kept) == Settings(None, "20kB")


def test_a_copy_keeps_rows_that_are_erased_elsewhere():
    rows = some_rows()
    engine, W = TorchEngine(rows, 2), np.ones((1, 34))
    other, before = engine.copied(), engine.gradient_sum(np.ones((1, 34)))
    engine.erase(np.arange(10))
    rows.X[:10] = 0
    same([other.gradient_sum(W)], [before])
    assert other.take(np.arange(10)).X.any()


@pytest.mark.parametrize("ahead", [0.0, 0.1, np.linspace(0.0, 0.1, 34)], ids=["0", "same", "each"])
def test_an_inverse_on_the_device_is_that_of_the_host(ahead):
    rows = some_rows(dtype="float64")
    engine, rng = TorchEngine(rows, 2), np.random.default_rng(2)
    H = engine.hessian_sum(np.zeros((1, 34)))[0] + np.eye(34)
    ours, theirs = DeviceInverse.on(H, engine.device, ahead, 0.1), Inverse.of(H, ahead, 0.1)
    v, U = rng.standard_normal(34), rng.standard_normal((3, 34)) / 20
    columns = rng.standard_normal((34, 3))
    same([ours.solve(v), ours.product(v)], [theirs.solve(v), theirs.product(v)], 1e-11)
    same([ours.solve(columns)], [theirs.solve(columns)], 1e-11)
    same([ours.without(U, 0.01, 0.01).solve(v)], [theirs.without(U, 0.01, 0.01).solve(v)], 1e-10)
    one, other = ours.downdated(U, 0.01), theirs.downdated(U, 0.01)
    same([one.inverse, one.hessian], [other.inverse, other.hessian], 1e-10)
    both = ours.roughly_each([ours, one], np.array([v, v]))
    same(both, [ours.solve(v), one.solve(v)])
    again = pickle.loads(pickle.dumps(ours))
    assert type(again) is Inverse
    assert again.share == theirs.share
    np.testing.assert_array_equal(again.ahead, theirs.ahead)
    same([again.solve(v)], [ours.solve(v)])


def test_factors_on_the_device_solve_together_as_alone():
    engine = TorchEngine(some_rows(classes=4, dtype="float64"), 4)
    rng = np.random.default_rng(3)
    W, rhs = rng.standard_normal((4, 34)), rng.standard_normal((4, 34))
    factors = engine.factors(W, None, 0.5)
    alone = [factor.solve(b) for factor, b in zip(factors, rhs, strict=True)]
    same(factors[0].solve_each(factors, rhs), alone)
    some = [factors[2], factors[0]]
    same(some[0].solve_each(some, rhs[[2, 0]]), [alone[2], alone[0]])
    expected = CpuEngine(engine.rows, 4).factors(W, None, 0.5)
    same(alone, [factor.solve(b) for factor, b in zip(expected, rhs, strict=True)], 1e-10)
    roots = [factor.inverse_fourth_root(b) for factor, b in zip(factors, rhs, strict=True)]
    goal = [factor.inverse_fourth_root(b) for factor, b in zip(expected, rhs, strict=True)]
    same(roots, goal, 1e-8)
    with pytest.raises(np.linalg.LinAlgError, match="raise l2"):
        engine.factors(W, None, -1e6)


def test_a_matrix_without_an_inverse_is_the_error_that_it_is_on_the_cpu():
    inverse = DeviceInverse.on(np.eye(3), torch.device("cpu"))
    with pytest.raises(np.linalg.LinAlgError):
        inverse.downdated(np.eye(3)[:1], 0.0)


def test_factors_without_memory_say_so(monkeypatch):
    engine = TorchEngine(some_rows(dtype="float64"), 2)
    factor = engine.factors(np.zeros((1, 34)), None, 0.5)[0]
    inverse, v = DeviceInverse.on(np.eye(34), engine.device), np.ones(34)

    def full(*_args, **_kwargs):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr("unfit.engines.device.factors.to_device", full)
    for asked in (
        lambda: factor.solve(v),
        lambda: factor.solve_each([factor], v[None]),
        lambda: factor.inverse_fourth_root(v),
        lambda: inverse.solve(v),
        lambda: inverse.product(v),
        lambda: inverse.roughly(v),
        lambda: inverse.roughly_each([inverse], v[None]),
        lambda: inverse.downdated(v[None], 0.0),
    ):
        with pytest.raises(Unavailable, match="no memory left"):
            asked()


@pytest.mark.parametrize("memory", [None, "20kB"])
@pytest.mark.parametrize("classes", [2, 4])
def test_sgd_walks_through_the_same_batches(classes, memory):
    rows, rng = some_rows(classes=classes, dtype="float64"), np.random.default_rng(5)
    ours, theirs = TorchEngine(rows, classes, memory=memory), CpuEngine(rows, classes)
    row_of = rng.permutation(900)[:777].astype(np.int32)
    plan, start = Plan(11, 4, 100, 0.5, 1e-3), rng.standard_normal((ours.k, ours.d))
    found, seen, bounds = [], [], []
    for engine in (ours, theirs):
        run = np.zeros((plan.steps(777), 2, *start.shape))
        layout = engine.lay_out(row_of)
        weights = engine.sgd(
            layout,
            plan,
            start,
            linear_term=start / 777,
            trajectory=run,
            progress=lambda *at: seen.append(at),
        )
        found.append((weights, run))
        bounds.append(layout.radius())
    same(found[0], found[1], 1e-10)
    assert ("training", 4, 4) in seen
    assert bounds[0] == bounds[1]
    assert ours.lay_out(row_of) is ours.lay_out(row_of)


def test_sgd_on_float32_rows_is_as_close_as_they_are():
    rows, rng = some_rows(), np.random.default_rng(6)
    plan, start = Plan(3, 5, 64, 1.0, 1e-3), rng.standard_normal((1, 34))
    order = rng.permutation(900).astype(np.int32)
    ours, theirs = TorchEngine(rows, 2), CpuEngine(rows, 2)
    found = ours.sgd(ours.lay_out(order), plan, start)
    same([found], [theirs.sgd(theirs.lay_out(order), plan, start)], 1e-5)


@pytest.mark.slow
def test_the_kernels_of_a_gpu_compute_what_the_cpu_does():
    pytest.importorskip("triton")
    program = Path(__file__).with_name("interpreted_kernels.py")
    found = subprocess.run(
        [sys.executable, str(program)],
        env={
            **os.environ,
            "TRITON_INTERPRET": "1",
            "UNFIT_TORCH_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(found.stdout) < 1e-12


def test_the_page_states_the_limits_of_the_code():
    page = (Path(__file__).parents[2] / "docs" / "scaling-gpu.md").read_text()
    assert f"up to {fused.LONGEST:,} columns and two problems" in page
    assert fused.FEW == 2
    assert f"{100 * memory.SHARE_OF_FREE:.0f} % of what is free" in page
    assert auto.REQUESTS == 10
    assert "a training and ten requests" in page.replace("\n", " ")
    assert f"{4 * sums.HESSIAN_ROWS // 1024} kB p" in page
    for variable in (memory.DEVICE, memory.MEMORY):
        assert f"`{variable}`" in page


def test_a_device_or_a_budget_that_does_not_exist_is_named(monkeypatch):
    rows = some_rows(n=20)
    with pytest.raises(BadInput, match="unknown device 'tpu'.*'cuda', 'cuda:1' or 'cpu'"):
        TorchEngine(rows, 2, device="tpu")
    monkeypatch.setenv("UNFIT_DEVICE_MEMORY", "a lot")
    with pytest.raises(BadInput, match="'a lot' is not an amount.*UNFIT_DEVICE_MEMORY.*40GB"):
        TorchEngine(rows, 2)
    monkeypatch.setenv("UNFIT_DEVICE_MEMORY", "1.5 kB")
    assert TorchEngine(rows, 2)._there.budget == 1500


@pytest.mark.parametrize("number", ["2", "300", "99999999999"])
def test_the_number_of_a_gpu_is_compared_with_those_there_are(monkeypatch, number):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert memory.chosen_device("cuda:01") == torch.device("cuda", 1)
    with pytest.raises(Unavailable, match="there are only 2 GPUs here; they are counted from 0"):
        memory.chosen_device(f"cuda:{number}")


def test_auto_knows_what_rows_may_take_of_a_gpu(monkeypatch):
    about = SimpleNamespace(name="a GPU", multi_processor_count=100)
    monkeypatch.delenv("UNFIT_TORCH_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: about)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (10**10, 10**10))
    assert memory.gpu_here().free == 8 * 10**9
    monkeypatch.setenv("UNFIT_DEVICE_MEMORY", "1GB")
    assert memory.gpu_here().free == 10**9


@pytest.mark.slow
def test_a_pytorch_that_cannot_be_loaded_is_as_none_to_auto(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so: cannot open shared object')")
    program = (
        "from unfit.engines import auto; print(auto._gpu_here())\n"
        "import unfit.engines.device.engine"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == "None\n"
    assert "installed here but cannot be loaded (libcudart.so" in found.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said_to_be_missing(monkeypatch):
    monkeypatch.setenv("UNFIT_TORCH_DEVICE", "cuda")
    with pytest.raises(Unavailable, match="no CUDA GPU here; set UNFIT_TORCH_DEVICE=cpu"):
        make_engine(some_rows(n=20), 2, name="torch")


def test_rows_that_fit_nowhere_are_refused_with_the_remedy():
    X = np.broadcast_to(np.float32(0), (20, 10**13))
    rows = Rows(X, np.zeros(20, np.int32), False)
    with pytest.raises(Unavailable, match="no memory left.*UNFIT_DEVICE_MEMORY.*engine 'cpu'"):
        TorchEngine(rows, 2, device="cpu")


def test_a_device_that_runs_out_of_memory_leaves_the_model_as_it_was(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 8)), rng.integers(0, 2, 400)
    clf = unfit.LogisticRegression("retrain", engine="torch").fit(X, y)
    before = clf.coef_.copy()

    def full(*_args, **_kwargs):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with monkeypatch.context() as patch:
        for name in ("evaluate", "products", "hessians"):
            patch.setattr(type(clf._data._sums), name, full)
        with pytest.raises(Unavailable, match="no memory left.*UNFIT_DEVICE_MEMORY"):
            clf.unlearn([3])
    np.testing.assert_array_equal(clf.coef_, before)
    assert clf.n_remaining_ == 400
    assert clf.unlearn([3]).n_remaining_ == 399
