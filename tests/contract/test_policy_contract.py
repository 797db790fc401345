"""The contract of policies, for every one: ours, and the one that tests/plugin adds."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from unfit.lifecycle.policies import POLICIES, AccuracyFloor, Never
from unfit.lifecycle.policy import Facts, Policy, Verdict
from unfit.testing import check_policy


@pytest.mark.parametrize("name", [*POLICIES])
def test_every_policy_passes_the_contract(name: str) -> None:
    check_policy(POLICIES[name])


def test_the_policy_of_another_package_is_found_by_its_entry_point() -> None:
    assert "auc_floor" in POLICIES
    assert POLICIES["auc_floor"].title == "AUC floor"


@dataclass(frozen=True)
class Moody(Never):
    """Decides as it did not before."""

    asked: ClassVar[list[Facts]] = []

    def decide(self, facts: Facts) -> Verdict:
        self.asked.append(facts)
        return Verdict(len(self.asked) % 2 == 0, "by turns")


@dataclass(frozen=True)
class Blind(AccuracyFloor):
    """Takes for granted that accuracy was measured."""

    def decide(self, facts: Facts) -> Verdict:
        return Verdict(facts.accuracy < self.threshold, "low")  # type: ignore[operator]


@dataclass(frozen=True)
class Telling(Never):
    """Names the classes that are gone."""

    def decide(self, facts: Facts) -> Verdict:
        return Verdict(False, f"gone: {facts.emptied}")


@dataclass(frozen=True)
class Unexplained(Never):
    title: ClassVar[str] = ""


@dataclass(frozen=True)
class Bare(Never):
    threshold: float = 1.0


@pytest.mark.parametrize(
    ("policy", "error", "said"),
    [
        (Moody, AssertionError, "differently on the same facts"),
        (Blind, TypeError, "not supported"),
        (Telling, AssertionError, "a class that may be erased"),
        (Unexplained, AssertionError, "no title"),
        (Bare, AssertionError, "threshold has no help"),
    ],
)
def test_what_breaks_the_contract_is_named(
    policy: type[Policy], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        check_policy(policy)
