"""The engine "auto": what it chooses, and what it says of that."""

import logging
import sys

import numpy as np
import pytest
from scipy import sparse

import unfit
from unfit.core.newton_cost import Sizes
from unfit.core.objective import Rows
from unfit.engines.auto import Gpu, Task, choose, on_cpu, on_gpu
from unfit.engines.base import ENVIRONMENT, make_engine
from unfit.errors import Unavailable
from unfit.methods import METHODS, Settings

H200 = Gpu(name="a GPU", free=100 << 30, bandwidth=4.8e12, rate=26e12)


def sizes(n, d, k=1):
    return Sizes(n=n, d=d, k=k, numbers=n * d, itemsize=4)


@pytest.mark.parametrize(
    ("n", "d", "task", "engine"),
    [
        (400_000, 2_000, Task(), "torch"),
        (400_000, 2_000, Task(epochs=60, batch_size=512), "torch"),
        (1_000, 20, Task(), "cpu"),
        (1_000, 20, Task(epochs=200, batch_size=16), "cpu"),
        (60_000, 784, Task(passes=0), "torch"),
    ],
)
def test_the_choice_follows_the_sizes(n, d, task, engine):
    found = choose(sizes(n, d), task, H200, cores=16)
    assert found.engine == engine
    assert f"{n:,} x {d:,} rows are estimated" in found.reason
    assert "16 CPU cores" in found.reason
    assert "a GPU" in found.reason


def test_the_reason_names_the_smaller_estimate_of_the_engine_chosen():
    for n in (100, 10_000, 1_000_000):
        found = choose(sizes(n, 100), Task(), H200, cores=4)
        gpu_wins = on_gpu(sizes(n, 100), Task(), H200) < on_cpu(sizes(n, 100), Task(), 4)
        assert found.engine == ("torch" if gpu_wins else "cpu")


def test_rows_that_do_not_fit_cost_the_bus_in_every_pass():
    small = Gpu(name="a GPU", free=1 << 20, bandwidth=4.8e12, rate=26e12)
    assert on_gpu(sizes(400_000, 2_000), Task(), small) > 10 * on_gpu(
        sizes(400_000, 2_000), Task(), H200
    )


def test_what_is_asked_is_that_of_the_method():
    assert METHODS["fisher"](Settings()).task == Task(batch_size=512, passes=0)
    asked = METHODS["deltagrad"](Settings(epochs=7, batch_size=64)).task
    assert asked == Task(epochs=7, batch_size=64, passes=0)
    assert METHODS["newton"](Settings()).task.passes > 0


def test_without_a_gpu_it_is_the_cpu_and_says_so(monkeypatch, caplog):
    monkeypatch.setenv("UNFIT_TORCH_DEVICE", "cpu")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = X[:, 0] > 0
    with caplog.at_level(logging.INFO, logger="unfit"):
        clf = unfit.LogisticRegression(engine="auto").fit(X, y)
    assert clf.engine_ == "cpu"
    assert clf.engine_reason_ == "PyTorch finds no CUDA GPU here, or is not installed."
    assert "the engine 'cpu' was chosen: PyTorch finds no CUDA GPU" in caplog.text
    monkeypatch.setenv(ENVIRONMENT, "auto")
    assert unfit.LogisticRegression().fit(X, y).engine_ == "cpu"
    named = unfit.LogisticRegression(engine="cpu").fit(X, y)
    assert (named.engine_, named.engine_reason_) == ("cpu", "")
    assert unfit.LogisticRegression(engine="auto").fit(sparse.csr_array(X), y).engine_ == "sparse"
    with pytest.raises(AttributeError):
        unfit.LogisticRegression().engine_  # noqa: B018


def test_without_pytorch_the_engine_torch_says_how_to_install_it(monkeypatch):
    for name in [n for n in sys.modules if n.startswith("unfit.engines.device")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    from unfit.engines.base import ENGINES

    monkeypatch.setattr(ENGINES, "_loaded", {})
    rows = Rows(np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1], np.int32), True)
    with pytest.raises(Unavailable, match=r'needs PyTorch.*pip install "unfit\[gpu\]"'):
        make_engine(rows, 2, name="torch")
    assert make_engine(rows, 2, name="auto").name == "cpu"
