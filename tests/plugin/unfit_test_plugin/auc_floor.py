"""A policy from outside: retrain when the area under the ROC curve has fallen too far."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from unfit.knobs import knob
from unfit.lifecycle.policy import Facts, Policy, Verdict


@dataclass(frozen=True)
class AucFloor(Policy):
    title: ClassVar[str] = "AUC floor"
    description: ClassVar[str] = "The AUC on held-out people, which may not fall below a floor."
    floor: Annotated[float, Ge(0), Le(1)] = knob(0.6, "lowest AUC on held-out people")
    patience: Annotated[int, Ge(0)] = knob(0, "rows that may go before the AUC counts")

    def decide(self, facts: Facts) -> Verdict:
        if facts.auc is None:
            return Verdict(False, "the AUC was not measured")
        if facts.deleted <= self.patience:
            return Verdict(False, f"no more than {self.patience:,} rows have gone since training")
        below = facts.auc < self.floor
        where = "is below" if below else "is not below"
        return Verdict(below, f"the AUC {facts.auc:.4f} {where} the floor {self.floor:g}")

    def condition(self) -> str:
        after = f" after more than {self.patience:,} rows have gone" if self.patience else ""
        return f"the AUC on held-out people is below {self.floor:g}{after}"
