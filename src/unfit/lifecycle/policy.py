"""When to retrain: the seam. A policy is pure: facts in, a verdict with its reason out.

A new policy is one class: a frozen dataclass that derives from `Policy`, with its settings as
fields, registered under a name in `lifecycle.policies` or by an entry point of the group
`unfit.policies`. The contract is `unfit.testing.check_policy`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

Action = Literal["open", "update", "retrain", "withdraw"]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known after an unlearning; None is what is not known.

    Accuracies are shares, errors and estimates percent. rows: trained on at the baseline; deleted:
    of these, gone by now. initial_accuracy: of the baseline's model, on the held-out people that
    accuracy is of too. acc_err_init is SAPE, the same for a fall and for a rise; accuracy_change
    has the sign. estimate = slope x acc_err_init. distance: estimated, from the weights of a
    retraining, as a share of the length of the weights; with certificates, the most that they
    allow. log_loss_change: on held-out people since training; more is worse. disparity: AccDis on
    the rows that leave, measured, the most it can be; joint_mu: of all releases, if this one
    follows; both are known with certificates alone.
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
    disparity: float | None = None
    joint_mu: float | None = None

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
    """Whether to retrain, and why, in a sentence."""

    retrain: bool
    reason: str


@dataclass(frozen=True)
class Policy(ABC):
    """Says whether an erasure is answered by retraining.

    title: its name for people. description: what it looks at, in a sentence. alone: whether it
    makes no sense beside other policies.
    """

    title: ClassVar[str]
    description: ClassVar[str]
    alone: ClassVar[bool] = False

    @abstractmethod
    def decide(self, facts: Facts) -> Verdict:
        """The same facts give the same verdict. What was not measured does not retrain."""

    @abstractmethod
    def condition(self) -> str:
        """When it retrains, with its settings: "test accuracy is below 0.5"."""


@dataclass(frozen=True)
class AnyOf:
    """Retrain when one of several policies says so; the reason is theirs."""

    policies: Sequence[Policy]

    def decide(self, facts: Facts) -> Verdict:
        verdicts = [policy.decide(facts) for policy in self.policies]
        said = [v for v in verdicts if v.retrain] or verdicts
        return Verdict(said[0].retrain, "; ".join(v.reason for v in said))


def decide(policy: Policy | AnyOf, facts: Facts) -> Verdict:
    """What the policy says, unless there is no choice: a class without rows cannot be kept."""
    if facts.emptied:
        count = len(facts.emptied)
        without = "a class has lost its last row, so the model must be retrained without it"
        if count > 1:
            without = (
                f"{count} classes have lost their last rows, "
                "so the model must be retrained without them"
            )
        return Verdict(True, without)
    return policy.decide(facts)
