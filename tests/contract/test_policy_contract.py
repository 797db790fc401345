"""The contract of policies, for every one: ours, and the one that tests/plugin adds."""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import pytest

from unfit.errors import BadInput
from unfit.experiments.streaming import policy_of
from unfit.knobs import knobs
from unfit.lifecycle.policies import POLICIES, AccuracyFloor, Disparity, Never
from unfit.lifecycle.policy import Facts, Policy, Verdict
from unfit.testing import check_policy

GUIDE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.mark.parametrize("name", [*POLICIES])
def test_every_policy_passes_the_contract(name: str) -> None:
    check_policy(POLICIES[name])


def test_the_policy_of_another_package_is_found_by_its_entry_point() -> None:
    assert "auc_floor" in POLICIES
    assert POLICIES["auc_floor"].title == "AUC floor"


def test_a_study_takes_policies_by_name_and_thresholds_of_the_disparity() -> None:
    assert policy_of("5%") == Disparity(5.0)
    for name in POLICIES:
        assert policy_of(name) == POLICIES[name]()
    with pytest.raises(BadInput, match="unknown policy 'moon'; there are distance"):
        policy_of("moon")


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
class Hasty(AccuracyFloor):
    """Takes an accuracy that was not measured for a low one."""

    def measure(self, facts: Facts) -> float:
        return facts.accuracy or 0.0


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
        (Hasty, AssertionError, "retrains although nothing was measured"),
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


@pytest.mark.skipif(not GUIDE.exists(), reason="the documents are not installed")
def test_the_documents_explain_every_fact() -> None:
    table = GUIDE.read_text().split("| fact | what it is |")[1].split("\n\n")[0]
    explained = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert sorted(explained) == sorted([*(f.name for f in fields(Facts)), "accuracy_change"])


def row_of(name: str) -> list[str]:
    """The cells of a policy in the table of docs/extending.md."""
    policy = POLICIES[name]
    helps = "; ".join(k.help for k in knobs(policy))
    defaults = "; ".join(f"{k.default:g}" for k in knobs(policy))
    return [f"`{name}`", policy.description, helps, defaults]


def test_a_policy_of_several_settings_has_one_row() -> None:
    assert row_of("auc_floor")[2:] == [
        "lowest AUC on held-out people; rows that may go before the AUC counts",
        "0.6; 0",
    ]


@pytest.mark.skipif(not GUIDE.exists(), reason="the documents are not installed")
def test_the_documents_explain_every_policy_and_their_example_passes_the_contract() -> None:
    text = GUIDE.read_text()
    table = text.split("| policy | looks at |")[1].split("\n\n")[0]
    for name in POLICIES.built_in():
        found = [row for row in table.splitlines() if row.startswith(f"| `{name}` |")]
        assert len(found) == 1, f"docs/extending.md needs one row for the policy `{name}`"
        cells = [cell.strip() for cell in found[0].strip("|").split("|")]
        assert cells == row_of(name)
    (example,) = [
        block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "(Policy)" in block
    ]
    made = {"__name__": "margin"}
    exec(compile(example, "margin.py", "exec"), made)
    check_policy(made["Margin"])
