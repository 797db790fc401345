"""When to retrain. A policy is pure: facts in, Employ or Retrain with a reason out.

The paper's rule estimates the disparity as c x AccErr_init, with c learned in a rehearsal before
the pipeline opens (lifecycle.pipeline.rehearse), and retrains when it is over a threshold.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known after an unlearning; None is what is not known.

    Accuracies are shares, errors and estimates percent. rows: trained on at the baseline; deleted:
    of these, gone by now. initial_accuracy: of the baseline's model, on the held-out people that
    accuracy is of too. acc_err_init is SAPE, the same for a fall and for a rise; accuracy_change
    has the sign. estimate = slope x acc_err_init. distance: estimated, from the weights of a
    retraining, as a share of the length of the weights. log_loss_change: on held-out people since
    training; more is worse.
    """

    rows: int
    deleted: int
    initial_accuracy: float | None = None
    accuracy: float | None = None
    acc_err_init: float | None = None
    slope: float | None = None
    estimate: float | None = None
    emptied: tuple[str, ...] = ()  # classes that have no row left
    majority: float | None = None
    log_loss: float | None = None
    auc: float | None = None
    log_loss_change: float | None = None
    distance: float | None = None

    @property
    def accuracy_change(self) -> float | None:
        """Since training, on the same people; below 0 it fell."""
        if self.accuracy is None or self.initial_accuracy is None:
            return None
        return self.accuracy - self.initial_accuracy

    def as_dict(self) -> dict[str, object]:
        known = {"emptied": len(self.emptied), "accuracy_change": self.accuracy_change}
        return asdict(self) | known  # a class's name may be erased


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
        if facts.estimate is None:
            return Verdict(False, "the disparity could not be estimated")
        over = facts.estimate > self.threshold
        said = "is over" if over else "is within"
        moved, change = "", facts.accuracy_change
        if over and change is not None:
            which = "rose" if change > 0 else "fell"
            moved = f" (accuracy {which} by {100 * abs(change):.3g} points since training)"
        return Verdict(
            over,
            f"the estimated disparity {facts.estimate:.3g} % {said} the threshold "
            f"{self.threshold:g} %{moved}",
        )


@dataclass(frozen=True)
class Distance:
    """Retrain when the weights are farther from a retraining's than so many percent of their
    length: what unlearning has left undone."""

    threshold: float

    def decide(self, facts: Facts) -> Verdict:
        if facts.distance is None:
            return Verdict(False, "the distance to a retraining was not measured")
        over = 100 * facts.distance > self.threshold
        return Verdict(
            over,
            f"the weights are {100 * facts.distance:.2g} % from a retraining's, "
            f"{'over' if over else 'within'} {self.threshold:g} %",
        )


@dataclass(frozen=True)
class LogLoss:
    """Retrain when the log-loss on held-out people has changed so much since training."""

    threshold: float

    def decide(self, facts: Facts) -> Verdict:
        change = facts.log_loss_change
        if change is None:
            return Verdict(False, "the log-loss was not measured")
        over = abs(change) > self.threshold
        if change == 0:  # to the digits that are kept
            return Verdict(over, "log-loss has not changed since training")
        return Verdict(
            over,
            f"log-loss {'rose' if change > 0 else 'fell'} by {abs(change):.2g} since training, "
            f"{'over' if over else 'within'} {self.threshold:g}",
        )


@dataclass(frozen=True)
class AccuracyFloor:
    """Retrain when test accuracy falls below a floor."""

    floor: float

    def decide(self, facts: Facts) -> Verdict:
        if facts.accuracy is None:
            return Verdict(False, "accuracy could not be measured")
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


Action = Literal["open", "update", "retrain", "withdraw"]
