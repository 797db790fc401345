"""The tool that times the published streams counts what it says it counts."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from stream_seconds import THRESHOLDS, costs, published_ratios


@pytest.mark.parametrize("method", ["stream", "newton", "fisher"])
def test_every_threshold_is_set_beside_always_retraining_and_refitting(workbench, method):
    found = list(costs(workbench, method, "targeted-random", every=7))
    assert [cost.threshold for cost in found] == list(THRESHOLDS)
    for cost in found:
        assert cost.seconds > 0
        assert cost.over_always == pytest.approx(cost.always / cost.seconds)
        assert cost.over_refit == pytest.approx(cost.refit / cost.seconds)
        assert cost.over_loose == pytest.approx(cost.loose / cost.seconds)
        assert cost.refit_residual <= cost.loose_residual
        assert 0 <= cost.retrainings <= cost.batches
        assert cost.published is None  # nobody has published streams of made-up rows


def test_published_ratios_are_those_of_the_authors_seconds():
    ratios = published_ratios()
    assert ratios["mnist-b", "targeted-informed", "0.5%"] == pytest.approx(348.127 / 35.037)
    assert ratios["covtype", "targeted-random", "5%"] == pytest.approx(8609.214 / 182.562)
