"""The policies of unfit, by name. Packages add theirs by entry points of `unfit.policies`.

The paper's rule is `disparity`: it estimates the disparity as c x AccErr_init, with c learned in a
rehearsal before the pipeline opens (lifecycle.pipeline.rehearse).
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le

from unfit.knobs import knob
from unfit.lifecycle.policy import Facts, Policy, Verdict
from unfit.registry import Registry

THETA = 0.45  # the share of rows that the rehearsal deletes


@dataclass(frozen=True)
class Threshold(Policy):
    """Retrain when one measured number passes a threshold."""

    threshold: float
    unmeasured: ClassVar[str] = "what is compared was not measured"  # the reason without a number

    @abstractmethod
    def measure(self, facts: Facts) -> float | None:
        """The number that is compared; None where it was not measured."""

    @abstractmethod
    def reason(self, facts: Facts, value: float, passed: bool) -> str:
        """Which number was compared with what, and how it came out."""

    def passes(self, value: float) -> bool:
        return value > self.threshold

    def decide(self, facts: Facts) -> Verdict:
        value = self.measure(facts)
        if value is None:
            return Verdict(False, self.unmeasured)
        passed = self.passes(value)
        return Verdict(passed, self.reason(facts, value, passed))


@dataclass(frozen=True)
class Distance(Threshold):
    title: ClassVar[str] = "Distance to a retraining"
    description: ClassVar[str] = (
        "The distance of the weights from those of a retraining, as a share of their length: what "
        "unlearning has left undone."
    )
    unmeasured: ClassVar[str] = "the distance to a retraining was not measured"
    threshold: Annotated[float, Ge(0)] = knob(
        5.0, "of the weights from those of a retraining, in percent of their length"
    )

    def measure(self, facts: Facts) -> float | None:
        return None if facts.distance is None else 100 * facts.distance

    def reason(self, facts: Facts, value: float, passed: bool) -> str:
        where = "over" if passed else "within"
        return f"the weights are {value:.2g} % from a retraining's, {where} {self.threshold:g} %"

    def condition(self) -> str:
        limit = f"{self.threshold:g} % of their length"
        return f"the weights differ by more than {limit} from those of a retraining"


@dataclass(frozen=True)
class LogLoss(Threshold):
    title: ClassVar[str] = "Log-loss"
    description: ClassVar[str] = "The change of the log-loss on held-out people since training."
    unmeasured: ClassVar[str] = "the log-loss was not measured"
    threshold: Annotated[float, Ge(0)] = knob(
        0.01, "change on held-out people since training, up or down"
    )

    def measure(self, facts: Facts) -> float | None:
        return None if facts.log_loss_change is None else abs(facts.log_loss_change)

    def reason(self, facts: Facts, value: float, passed: bool) -> str:
        if value == 0:  # to the digits that are kept
            return "log-loss has not changed since training"
        which = "rose" if (facts.log_loss_change or 0.0) > 0 else "fell"
        where = "over" if passed else "within"
        return f"log-loss {which} by {value:.2g} since training, {where} {self.threshold:g}"

    def condition(self) -> str:
        return f"the log-loss on held-out people has changed by more than {self.threshold:g}"


@dataclass(frozen=True)
class Disparity(Threshold):
    title: ClassVar[str] = "Disparity"
    description: ClassVar[str] = (
        "The disparity on deleted rows. With certificates it is measured; else it is the paper's "
        "rule: estimated as c x AccErr_init from the change of the test accuracy."
    )
    unmeasured: ClassVar[str] = "the disparity could not be estimated"
    threshold: Annotated[float, Ge(0)] = knob(
        1.0,
        "percent: measured with certificates, else the paper's estimate c x AccErr_init; also the "
        "limit of audits",
    )

    def measure(self, facts: Facts) -> float | None:
        return facts.estimate if facts.disparity is None else facts.disparity

    def reason(self, facts: Facts, value: float, passed: bool) -> str:
        where, moved = ("is over" if passed else "is within"), ""
        if facts.disparity is not None:
            limit = f"the threshold {self.threshold:g} %"
            return f"the measured disparity, {value:.3g} % at most, {where} {limit}"
        change = facts.accuracy_change
        if passed and change is not None:
            which = "rose" if change > 0 else "fell"
            moved = f" (accuracy {which} by {100 * abs(change):.3g} points since training)"
        limit = f"the threshold {self.threshold:g} %"
        return f"the estimated disparity {value:.3g} % {where} {limit}{moved}"

    def condition(self) -> str:
        return f"the disparity, estimated or measured, is above {self.threshold:g} %"


@dataclass(frozen=True)
class AccuracyFloor(Threshold):
    title: ClassVar[str] = "Accuracy floor"
    description: ClassVar[str] = "The test accuracy, which may not fall below a floor."
    unmeasured: ClassVar[str] = "accuracy could not be measured"
    threshold: Annotated[float, Ge(0), Le(1)] = knob(0.5, "lowest test accuracy")

    def measure(self, facts: Facts) -> float | None:
        return facts.accuracy

    def passes(self, value: float) -> bool:
        return value < self.threshold

    def reason(self, facts: Facts, value: float, passed: bool) -> str:
        where = "is below" if passed else "is not below"
        return f"test accuracy {value:.4f} {where} the floor {self.threshold:g}"

    def condition(self) -> str:
        return f"test accuracy is below {self.threshold:g}"


@dataclass(frozen=True)
class DeletedRows(Threshold):
    title: ClassVar[str] = "Deleted rows"
    description: ClassVar[str] = "The number of rows that have gone since the last training."
    threshold: Annotated[int, Ge(1)] = knob(1000, "rows deleted since training")

    def measure(self, facts: Facts) -> float:
        return facts.deleted

    def passes(self, value: float) -> bool:
        return value >= self.threshold

    def reason(self, facts: Facts, value: float, passed: bool) -> str:
        gone = "1 row has" if facts.deleted == 1 else f"{facts.deleted:,} rows have"
        where = "not below" if passed else "below"
        return f"{gone} gone since training, {where} the limit of {self.threshold:,}"

    def condition(self) -> str:
        return f"{self.threshold:,} rows have gone since training"


@dataclass(frozen=True)
class DeletedShare(Threshold):
    title: ClassVar[str] = "Deleted share"
    description: ClassVar[str] = "The share of the rows that has gone since the last training."
    threshold: Annotated[float, Gt(0), Le(1)] = knob(
        0.1, "share of the rows deleted since training"
    )

    def measure(self, facts: Facts) -> float:
        return facts.deleted / max(1, facts.rows)

    def passes(self, value: float) -> bool:
        return value >= self.threshold

    def reason(self, facts: Facts, value: float, passed: bool) -> str:
        where = "not below" if passed else "below"
        gone, limit = f"{100 * value:.3g} %", f"{100 * self.threshold:g} %"
        return f"{gone} of the rows have gone since training, {where} the limit of {limit}"

    def condition(self) -> str:
        return f"{100 * self.threshold:g} % of the rows have gone since training"


@dataclass(frozen=True)
class Budget(Threshold):
    title: ClassVar[str] = "Budget of releases"
    description: ClassVar[str] = (
        "What somebody who has seen all certified releases can tell, as their joint mu. A release "
        "of a retraining adds little to it, and an erasure cannot wait."
    )
    unmeasured: ClassVar[str] = "there are no certificates, and so no budget"
    threshold: Annotated[float, Gt(0)] = knob(
        2.0, "joint mu of all certified releases; 2 is epsilon 10 at delta 1e-5"
    )

    def measure(self, facts: Facts) -> float | None:
        return facts.joint_mu

    def reason(self, facts: Facts, value: float, passed: bool) -> str:
        where = "over" if passed else "within"
        return f"all releases together would have a mu of {value:.3g}, {where} {self.threshold:g}"

    def condition(self) -> str:
        return f"the joint mu of all certified releases is above {self.threshold:g}"


@dataclass(frozen=True)
class Always(Policy):
    title: ClassVar[str] = "Always"
    description: ClassVar[str] = "Every erasure is answered by retraining."
    alone: ClassVar[bool] = True

    def decide(self, facts: Facts) -> Verdict:
        return Verdict(True, "the policy is to retrain at every erasure")

    def condition(self) -> str:
        return "anybody is forgotten"


@dataclass(frozen=True)
class Never(Policy):
    title: ClassVar[str] = "Never"
    description: ClassVar[str] = "No erasure is answered by retraining unless there is no choice."
    alone: ClassVar[bool] = True

    def decide(self, facts: Facts) -> Verdict:
        return Verdict(False, "the policy is never to retrain")

    def condition(self) -> str:
        return "there is no choice"


POLICIES: Registry[type[Policy]] = Registry(
    "policy",
    "unfit.policies",
    {
        "distance": f"{__name__}:Distance",
        "log_loss": f"{__name__}:LogLoss",
        "disparity": f"{__name__}:Disparity",
        "accuracy": f"{__name__}:AccuracyFloor",
        "count": f"{__name__}:DeletedRows",
        "share": f"{__name__}:DeletedShare",
        "budget": f"{__name__}:Budget",
        "always": f"{__name__}:Always",
        "never": f"{__name__}:Never",
    },
)
