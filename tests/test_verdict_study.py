"""The study of tools/verdict_study.py in small: an audit and a policy that can fail."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import verdict_study  # noqa: E402


def test_nothing_unlearned_is_not_forgotten_and_most_of_a_rare_label_is_seen() -> None:
    found = verdict_study.run(quick=True)
    for group in found["groups"]:
        expected = "forgotten" if group["unlearned"] else "not forgotten"
        assert group["with_rows"] == group["without_rows"] == {expected: group["runs"]}
    most, one = found["rare"]["most"], found["rare"]["one"]
    assert abs(most["accuracy"] - most["majority"]) < 0.01
    assert not most["disparity"]  # the paper's estimate sees nothing
    assert most["distance_policy"]
    assert most["log_loss_policy"]
    assert most["outcome"] == "not forgotten"
    for policy in ("distance_policy", "log_loss_policy", "disparity"):
        assert not one[policy]
    assert one["outcome"] == "forgotten"
