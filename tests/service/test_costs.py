"""What the method page says of time: like with like, warm, and what was really read."""

from datetime import UTC, datetime
from typing import Any

import pytest

from unfit.service.dashboard.costs import costs
from unfit.store.records import Times, Version

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
TRAINING = {
    "encode": 2.0,
    "train": 0.1,
    "evaluate": 0.2,
    "rehearse": 0.3,
    "write": 0.05,
    "commit": 0.01,
}


def version(number: int, kind: Any, phases: dict[str, float] | None, **more: Any) -> Version:
    times = None if phases is None else Times(phases=phases, **({"cold": False} | more))
    seconds = 100.0 if phases is None else sum(phases.values())
    return Version(
        id=number,
        number=number,
        kind=kind,
        state="superseded",
        activated_at=NOW,
        superseded_at=NOW,
        method="fisher",
        generation=None,
        rows=1000 - number,
        subjects=5,
        deleted=1,
        accuracy=0.9,
        seconds=seconds,
        baseline={},
        times=times,
    )


def updated(number: int, unlearn: float, **more: Any) -> Version:
    phases = {"open": 0.001, "unlearn": unlearn, "evaluate": 0.004, "commit": 0.005}
    return version(number, "updated", phases, **more)


def test_a_step_stands_beside_a_step_and_a_whole_beside_a_whole() -> None:
    versions = [
        version(1, "trained", {"read": 5.0} | TRAINING, cold=True),  # compiled on the way
        updated(2, 0.010, purge=0.03, steps=1),
        updated(3, 0.020, purge=0.05, steps=4),
        updated(4, 0.030, purge=0.04, steps=1, rows_read=1992),
        updated(5, 9.0, cold=True),
        version(6, "retrained", TRAINING),
        version(7, "retrained", {"open": 7.0, "unlearn": 8.0} | TRAINING),  # led to by an erasure
        version(8, "updated", None),  # from before phases were kept
    ]
    found = costs(versions)
    assert found.updates == 3
    assert found.unlearn_ms == pytest.approx(20)
    assert found.update_ms == pytest.approx(30)
    assert found.purge_ms == pytest.approx(40)
    assert found.one_step_ms == pytest.approx(20)  # of the second and the fourth
    assert found.trainings == found.retrainings == 2
    assert found.train_ms == pytest.approx(100)
    assert found.retrain_ms == pytest.approx(2660)
    assert found.step_ratio == pytest.approx(5)
    assert found.whole_ratio == pytest.approx(2660 / 30)
    assert (found.rows_read, found.rows_left, found.passes) == (1992, 996, 2.0)
    assert (found.looked_at, found.left_out) == (8, 3)


def test_nothing_measured_is_nothing_said() -> None:
    found = costs([version(1, "trained", TRAINING, cold=True), version(2, "updated", None)])
    assert found.update_ms is found.unlearn_ms is found.train_ms is found.retrain_ms is None
    assert found.step_ratio is found.whole_ratio is found.passes is None
