"""When to retrain. A policy is pure: facts in, Employ or Retrain with a reason out.

The paper's rule estimates the disparity as c x AccErr_init, with c learned in a rehearsal before
the pipeline opens (lifecycle.pipeline.rehearse), and retrains when it is over a threshold.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Facts:
    """What is known after an unlearning. Accuracies are shares, errors and estimates percent.

    rows: trained on at the baseline; deleted: of these, gone by now.
    estimate = slope x acc_err_init.
    """

    rows: int
    deleted: int
    initial_accuracy: float
    accuracy: float
    acc_err_init: float
    slope: float
    estimate: float
    emptied: tuple[str, ...] = ()  # classes that have no row left

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"emptied": len(self.emptied)}  # a class's name may be erased


@dataclass(frozen=True)
class Verdict:
    """retrain, and why, in a sentence."""

    retrain: bool
    reason: str


class Policy(Protocol):
    def decide(self, facts: Facts) -> Verdict: ...


@dataclass(frozen=True)
class Disparity:
    """The paper's rule: retrain when the estimated disparity is over the threshold (percent)."""

    threshold: float

    def decide(self, facts: Facts) -> Verdict:
        over = facts.estimate > self.threshold
        said = "is over" if over else "is within"
        return Verdict(
            over,
            f"the estimated disparity {facts.estimate:.3g} % {said} the threshold "
            f"{self.threshold:g} %",
        )


@dataclass(frozen=True)
class AccuracyFloor:
    """Retrain when test accuracy falls below a floor."""

    floor: float

    def decide(self, facts: Facts) -> Verdict:
        below = facts.accuracy < self.floor
        said = "is below" if below else "is not below"
        return Verdict(below, f"test accuracy {facts.accuracy:.4f} {said} the floor {self.floor:g}")


@dataclass(frozen=True)
class DeletedRows:
    """Retrain when so many rows have gone since the last training."""

    count: int

    def decide(self, facts: Facts) -> Verdict:
        reached = facts.deleted >= self.count
        return Verdict(
            reached, f"{facts.deleted:,} of at most {self.count:,} rows have gone since training"
        )


@dataclass(frozen=True)
class DeletedShare:
    """Retrain when such a share of the rows has gone since the last training."""

    share: float

    def decide(self, facts: Facts) -> Verdict:
        gone = facts.deleted / max(1, facts.rows)
        return Verdict(
            gone >= self.share,
            f"{100 * gone:.3g} % of at most {100 * self.share:g} % of the rows have gone since "
            "training",
        )


@dataclass(frozen=True)
class Always:
    def decide(self, facts: Facts) -> Verdict:
        return Verdict(True, "the policy is to retrain at every erasure")


@dataclass(frozen=True)
class Never:
    def decide(self, facts: Facts) -> Verdict:
        return Verdict(False, "the policy is never to retrain")


@dataclass(frozen=True)
class AnyOf:
    """Retrain when one of several says so; the reason is theirs."""

    policies: Sequence[Policy]

    def decide(self, facts: Facts) -> Verdict:
        verdicts = [policy.decide(facts) for policy in self.policies]
        said = [v for v in verdicts if v.retrain] or verdicts
        return Verdict(said[0].retrain, "; ".join(v.reason for v in said))


def decide(policy: Policy, facts: Facts) -> Verdict:
    """What the policy says, unless there is no choice: a class without rows cannot be kept."""
    if facts.emptied:
        count = len(facts.emptied)
        what = "a class has" if count == 1 else f"{count} classes have"
        return Verdict(True, f"{what} no row left, so a model without it is due")
    return policy.decide(facts)


Action = Literal["open", "employ", "retrain", "withdraw"]
