"""Every registered engine passes the public contract, and a wrong one does not."""

from dataclasses import replace

import numpy as np
import pytest

from unfit.core.losses import LOSSES
from unfit.engines.base import ENGINES, make_engine
from unfit.errors import BadInput, Unavailable
from unfit.methods import METHODS, Settings
from unfit.testing import CASES, Case, check_engine

IN_PROCESS = [name for name in ENGINES if name != "dask"]  # see tests/engines/test_dask_engine.py


def engine_called(name):
    if name == "torch":
        pytest.importorskip("torch").set_num_threads(1)
    return ENGINES[name]


@pytest.mark.parametrize("name", IN_PROCESS)
def test_contract(name):
    check_engine(engine_called(name))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", IN_PROCESS)
def test_every_engine_knows_every_loss(name, loss):
    check_engine(engine_called(name), [Case("float64", 3, LOSSES[loss]())])


def test_an_engine_that_counts_forgotten_rows_is_caught():
    class Stubborn(ENGINES["cpu"]):
        name = "stubborn"

        def hessian_sum(self, W, mask=None):
            return super().hessian_sum(W, np.ones(len(self), bool))

    with pytest.raises(AssertionError, match="a mask and `forget`|Hessians"):
        check_engine(Stubborn, CASES[:1])


def test_an_unknown_engine_is_refused_with_the_known_ones():
    with pytest.raises(BadInput, match="unknown engine 'gpu'; there are cpu"):
        make_engine(CASES[0].rows(), 2, name="gpu")


@pytest.mark.parametrize(("method", "solver"), [("deltagrad", "auto"), ("fisher", "sgd")])
def test_what_an_engine_lacks_is_said_before_any_work(method, solver, monkeypatch):
    class NoSgd(ENGINES["cpu"]):
        name = "no-sgd"
        sgd = None

    monkeypatch.delattr(ENGINES["cpu"], "replay")
    data = NoSgd(CASES[0].rows(), 2)
    with pytest.raises(Unavailable, match=f"The method '{method}' .* engine 'no-sgd'"):
        METHODS[method](Settings(solver=solver)).require(data)


def test_an_engine_that_does_not_say_it_multiplies_refuses_weights():
    class Unweighted(ENGINES["cpu"]):
        name = "unweighted"
        takes_sample_weight = False

    rows = replace(CASES[0].rows(), sample_weight=np.full(400, 2.0))
    method = METHODS["fisher"](Settings())
    with pytest.raises(Unavailable, match="engine 'unweighted' does not take sample weights"):
        method.require(Unweighted(rows, 2))
    method.require(Unweighted(CASES[0].rows(), 2))


def test_an_engine_that_forgets_its_weights_is_caught():
    class Forgetful(ENGINES["cpu"]):
        def hessian_sum(self, W, mask=None):
            self.rows = replace(self.rows, sample_weight=None)
            return super().hessian_sum(W, mask)

    with pytest.raises(AssertionError, match="Hessian sums over weighted rows"):
        check_engine(Forgetful, CASES[:1])
