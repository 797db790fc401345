"""What an attack on releases found, and what follows for a claim. Pure.

An attack is worth what its controls are: releases of models that never unlearned must be told from
those of retrained ones, and retrained ones must not be told from one another.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

from unfit.certify.accountant import mu_of
from unfit.certify.rates import Curves, Told

Outcome = Literal["refuted", "not refuted", "cannot tell", "no claim"]
Side = Literal["too little", "too much"]  # was forgotten
_ALL_DIGITS = 17  # of a float64
NEGLIGIBLE = 0.1  # an epsilon or mu that is as good as none, where nothing was claimed


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """epsilon: what was claimed; None without a claim. found: of unlearned models against retrained
    ones; control: of models that never unlearned, None where the deleted rows are not at hand;
    same: of retrained models against retrained ones. most: the largest epsilon that this attack
    could have found. side: on which side of retrained models the unlearned ones lie, seen from
    those that never unlearned."""

    epsilon: float | None
    delta: float
    found: Told
    control: Told | None
    same: Told
    most: float
    side: Side | None = None
    curves: Curves | None = None

    @property
    def limit(self) -> float | None:
        """The largest mu that the claim allows."""
        return None if self.epsilon is None else mu_of(self.epsilon, self.delta)

    def _beyond(self, told: Told) -> bool:
        if self.epsilon is None or self.limit is None:
            return told.mu > NEGLIGIBLE or told.epsilon > NEGLIGIBLE
        return told.mu > self.limit or told.epsilon > self.epsilon

    @property
    def outcome(self) -> Outcome:
        if self._beyond(self.same):
            return "cannot tell"
        if self._beyond(self.found):
            return "no claim" if self.epsilon is None else "refuted"
        if self.control is None or not self._beyond(self.control):
            return "cannot tell"
        return "no claim" if self.epsilon is None else "not refuted"

    @property
    def verdict(self) -> str:
        if self.outcome == "no claim":
            shown = at_least(self.found.epsilon)
            what = f"epsilon >= {shown:.3g}" if shown > 0 else "no epsilon above 0"
            return f"shows {what}: {self.reason}"
        return f"{self.outcome}: {self.reason}"

    @property
    def forgotten(self) -> str:
        """ "under-forgotten" or "over-forgotten", where a difference was shown at all."""
        shown = self.control is not None and self._beyond(self.control)
        if self.side is None or not shown or not self._beyond(self.found):
            return ""
        return "under-forgotten" if self.side == "too little" else "over-forgotten"

    @property
    def reason(self) -> str:
        if self._beyond(self.same):
            return (
                "releases of one and the same kind of model were told apart: the test itself is "
                "wrong"
            )
        if self._beyond(self.found):
            return self._told_apart()
        if self.control is None:
            return "without the deleted rows there is no model that never unlearned to compare with"
        if not self._beyond(self.control):
            return (
                "a model that never unlearned cannot be told apart either: noise, or what the "
                "attacker does not know, hides what the deleted rows leave"
            )
        against = f"for a model that never unlearned it found {at_least(self.control.mu):.3g}"
        if self.limit is None:
            return (
                f"mu is at least {at_least(self.found.mu):.3g} at delta {self.delta:g}; {against}"
            )
        return (
            f"mu is at least {at_least(self.found.mu):.3g} by this test, and the claim allows "
            f"{self.limit:.3g}; {against}"
        )

    def _told_apart(self) -> str:
        side = f"; {self.forgotten}" if self.forgotten else ""
        if self.epsilon is None:
            return f"mu is at least {at_least(self.found.mu):.3g} at delta {self.delta:g}{side}"
        mu, epsilon = at_least(self.found.mu), at_least(self.found.epsilon)
        return (
            f"the claim of epsilon {self.epsilon:g} at delta {self.delta:g} allows a mu of "
            f"{self.limit:.3g}, and mu is at least {mu:.3g}, epsilon at least {epsilon:.3g}{side}"
        )

    def __str__(self) -> str:
        return "\n".join(f"{name:<18}{value}" for name, value in self.lines())

    def lines(self) -> list[tuple[str, str]]:
        """Names and what they came to."""
        claim = "none" if self.epsilon is None else f"epsilon {self.epsilon:g}"
        rows = [
            ("claim", f"{claim}, delta {self.delta:g}"),
            *self._size(),
            ("told apart", line_of(self.found)),
            *self._more(),
        ]
        if self.control is not None:
            rows.append(("never unlearned", line_of(self.control)))
        return [
            *rows,
            ("retrained twice", line_of(self.same)),
            ("could have found", f"epsilon {self.most:.3g} at most"),
            ("verdict", self.verdict),
        ]

    def _size(self) -> list[tuple[str, str]]:
        """How much was drawn."""
        return []

    def _more(self) -> list[tuple[str, str]]:
        """What else was found."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it, and what follows from it."""
        return asdict(self) | {
            "outcome": self.outcome,
            "verdict": self.verdict,
            "forgotten": self.forgotten,
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """From a dictionary that `to_dict` made."""
        known = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        for name in ("found", "control", "same", "mean"):
            if known.get(name) is not None:
                known[name] = Told(**known[name])
        if known.get("curves") is not None:
            drawn = {name: tuple(values) for name, values in known["curves"].items()}
            known["curves"] = Curves(**drawn | {"roc": tuple(map(tuple, drawn["roc"]))})
        return cls(**known)

    def rounded(self, digits: int) -> Self:
        """As it is kept for good: so many digits of each figure, and one more of what is drawn.

        What must be at least so much is rounded down; where that would change the outcome, more
        digits are kept.
        """
        for more in range(digits, _ALL_DIGITS):
            found = self._rounded(more)
            if (found.outcome, found.forgotten) == (self.outcome, self.forgotten):
                return found
        return self

    def _rounded(self, digits: int) -> Self:
        parts: dict[str, Any] = {
            f.name: _rounded_down(value, digits)
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), Told)
        }
        parts["most"] = round_to(self.most, digits)
        if self.curves is not None:
            drawn, fine = asdict(self.curves), digits + 1
            roc = tuple(tuple(round_to(v, fine) for v in point) for point in drawn.pop("roc"))
            shares = {name: tuple(round_to(v, fine) for v in vs) for name, vs in drawn.items()}
            parts["curves"] = Curves(**shares, roc=roc)  # type: ignore[arg-type]  # points of four
        return replace(self, **parts)


def _rounded_down(told: Told, digits: int) -> Told:
    return Told(
        epsilon=at_least(told.epsilon, digits),
        mu=at_least(told.mu, digits),
        auc=round_to(told.auc, digits),
        tpr=round_to(told.tpr, digits),
    )


def round_to(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def at_least(value: float, digits: int = 3) -> float:
    """A lower bound in so many digits: never above it."""
    near = round_to(value, digits)
    if near <= value or value <= 0:
        return near
    return round_to(near - 10.0 ** (math.floor(math.log10(value)) - digits + 1), digits)


def line_of(told: Told) -> str:
    return (
        f"epsilon >= {at_least(told.epsilon):.3g}, mu >= {at_least(told.mu):.3g}, "
        f"AUC {told.auc:.3g}"
    )
