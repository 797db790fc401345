"""What an audit found, as a record and in words."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from unfit.audit.attack_report import Attack
from unfit.audit.verdict import Outcome

Compared = Literal["weights", "weights before noise", "weights with the same noise term"]


@dataclass(frozen=True)
class Audit:
    """What an independent retraining says of the updated model.

    AccErr and AccDis are SAPE, in percent; distances are relative to the length of the retrained
    weights; differences of probabilities are means over rows. None: not measured.
    """

    n_remaining: int
    n_deleted: int
    accuracy_updated: float | None
    accuracy_retrained: float | None
    acc_err: float | None
    deleted_accuracy_updated: float | None
    deleted_accuracy_retrained: float | None
    acc_dis: float | None
    acc_dis_spread: float | None
    weight_distance: float
    predictions_differ: float | None
    residual: float
    threshold: float
    draws: int
    outcome: Outcome
    reason: str
    compared: Compared = "weights"
    control_distance: float | None = None  # of a model that never unlearned
    influence_left: float | None = None  # 0: as retrained, 1: as if nothing had been unlearned
    rows_left: float | None = None  # the distance, in influences of a typical single row
    floor: float | None = None  # what the retraining is off by, in the same unit
    retrainings_differ: float | None = None  # relative distance of two retrainings with noise
    position: float | None = None  # with noise: 0 among retrainings, 1 with the control
    scatter: float | None = None  # of retrainings, in the same unit
    majority: float | None = None
    log_loss_updated: float | None = None
    log_loss_retrained: float | None = None
    auc_updated: float | None = None
    auc_retrained: float | None = None
    probabilities_differ: float | None = None
    control_probabilities_differ: float | None = None
    deleted_majority: float | None = None
    deleted_log_loss_updated: float | None = None
    deleted_log_loss_retrained: float | None = None
    deleted_auc_updated: float | None = None
    deleted_auc_retrained: float | None = None
    deleted_probabilities_differ: float | None = None
    deleted_control_probabilities_differ: float | None = None
    disparities: tuple[float, ...] = ()  # AccDis of each draw
    measured_on: Literal["test", "training"] = "test"  # accuracy, log-loss, AUC; who has no others
    attack: Attack | None = None  # where one was asked for

    @property
    def passed(self) -> bool | None:
        """None where the audit cannot tell."""
        return {"forgotten": True, "not forgotten": False, "cannot tell": None}[self.outcome]

    @property
    def verdict(self) -> str:
        return f"{self.outcome}: {self.reason}"

    def with_attack(self, attack: Attack) -> "Audit":
        """With what an attack found; what it refutes is not forgotten."""
        if attack.outcome == "refuted":
            return replace(self, attack=attack, outcome="not forgotten", reason=attack.verdict)
        return replace(self, attack=attack)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Audit":
        """From a report's fields; one from before there were such verdicts cannot tell."""
        known = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        known["disparities"] = tuple(known.get("disparities", ()))
        if known.get("attack") is not None:
            known["attack"] = Attack.of(known["attack"])
        if "outcome" not in known:
            known["outcome"] = "cannot tell"
            known["reason"] = "this audit compared accuracies alone, which cannot show it"
        return cls(**known)

    def __str__(self) -> str:
        table = "\n".join(f"{name:<19}{value}" for name, value in self.lines())
        return table if self.attack is None else f"{table}\n\n{self.attack}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        attack = None if self.attack is None else self.attack.to_dict()
        return own | {"disparities": list(self.disparities), "attack": attack}

    def lines(self) -> list[tuple[str, str]]:
        """What was found: a name and what it came to."""
        spread = "" if self.acc_dis_spread is None else f" +- {self.acc_dis_spread:.4f}"
        were = "was" if self.n_deleted == 1 else "were"
        rows = f"{self.n_remaining:,} training rows remain, {self.n_deleted:,} {were} deleted"
        distance = f"{self.weight_distance:.3e} relative, between {self.compared} and retrained"
        if self.control_distance is not None:
            distance += f" ({self.control_distance:.3e} if nothing is unlearned)"
        left = "not measured (no deleted rows at hand)"
        if self.influence_left is not None:
            left = f"{100 * self.influence_left:.3g} % of the deleted rows'"
        if self.rows_left is not None:
            left += f"; {self.rows_left:.2g} of a typical single row's"
        on = self.measured_on
        those = "test rows" if on == "test" else "the remaining training rows"
        bare = self.compared == "weights before noise"
        apart = _apart(self.probabilities_differ, self.control_probabilities_differ, those)
        accuracy = _pair(self.accuracy_updated, self.accuracy_retrained, bare)
        of_deleted = _pair(self.deleted_accuracy_updated, self.deleted_accuracy_retrained)
        found = [
            ("rows", rows),
            ("weight distance", distance),
            ("influence left", left),
            ("probabilities", apart),
            ("predictions differ", _share(self.predictions_differ, f"of {those}")),
            (f"{on} accuracy", f"{accuracy}, majority rate {shown(self.majority)}"),
            (f"{on} log-loss", _pair(self.log_loss_updated, self.log_loss_retrained, bare)),
            (f"{on} AUC", _pair(self.auc_updated, self.auc_retrained, bare)),
            ("on deleted rows", f"{of_deleted}, accuracy"),
            ("AccErr", _percent(self.acc_err)),
            ("AccDis", _percent(self.acc_dis) + spread),
            ("residual", f"{self.residual:.3e} |gradient sum| per row"),
            ("verdict", self.verdict),
        ]
        if self.retrainings_differ is not None:
            more = f"{self.retrainings_differ:.3g} relative, from one another, by their noise"
            found.insert(3, ("retrainings differ", more))
        return found


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _pair(updated: float | None, retrained: float | None, bare: bool = False) -> str:
    """bare: what was released has noise, and what was retrained has none."""
    return f"{shown(updated)} (retrained{' without noise' if bare else ''} {shown(retrained)})"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f} %"


def _share(value: float | None, of: str) -> str:
    return "-" if value is None else f"{100 * value:.3f} % {of}"


def _apart(updated: float | None, control: float | None, rows: str) -> str:
    if updated is None:
        return "-"
    more = "" if control is None else f" ({control:.2e} if nothing is unlearned)"
    return f"differ by {updated:.2e} on average on {rows}{more}"
