"""What two attacks on a model's releases found, and what follows for its claim. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unfit.certify.attack_result import AttackResult, Outcome, at_least
from unfit.certify.release_test import ReleaseTest
from unfit.certify.shadow_models import ShadowTest

DIGITS = 2  # of a figure that is kept for good
NO_NOISE = (
    "no noise: no finite epsilon; whoever knows the remaining rows can tell any difference from a "
    "retraining"
)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """release: on this very model's releases; None where there can be no such test, and note says
    why. shadow: on the way they are made, with other rows. Together they are wrong less often than
    once in twenty."""

    release: ReleaseTest | None
    shadow: ShadowTest
    note: str = ""

    @property
    def tests(self) -> Sequence[tuple[str, AttackResult]]:
        """By name."""
        shadow = ("shadow models", self.shadow)
        return [shadow] if self.release is None else [("release test", self.release), shadow]

    @property
    def epsilon(self) -> float | None:
        """What was claimed."""
        return self.shadow.epsilon

    @property
    def outcome(self) -> Outcome:
        """Refuted by either; not refuted by one at least that could have."""
        found = [test.outcome for _, test in self.tests]
        for outcome in ("refuted", "not refuted", "no claim"):
            if outcome in found:
                return outcome
        return "cannot tell"

    @property
    def verdict(self) -> str:
        if self.epsilon is None and self.note == NO_NOISE:
            return f"{self.note}; {self._without_rows()}"
        deciding = [(name, test) for name, test in self.tests if test.outcome == self.outcome]
        name, test = max(deciding, key=lambda one: (one[1].found.epsilon, one[1].found.mu))
        said = f"{test.verdict} ({name})"
        others = [f"{n}: {t.outcome}" for n, t in self.tests if t.outcome != self.outcome]
        return "; ".join([said, *others])

    def _without_rows(self) -> str:
        shown = self.shadow.outcome == "no claim"
        epsilon = f"epsilon >= {at_least(self.shadow.found.epsilon):.3g}" if shown else "nothing"
        return f"against an attacker who does not know them, the shadow models show {epsilon}"

    def __str__(self) -> str:
        tables = [f"{name}\n{test}" for name, test in self.tests]
        if self.note:
            tables.append(f"{'no release test':<18}{self.note}")
        tables.append(f"{'attack':<18}{self.verdict}")
        return "\n\n".join(tables)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it."""
        return {
            "outcome": self.outcome,
            "verdict": self.verdict,
            "note": self.note,
            "release": None if self.release is None else self.release.to_dict(),
            "shadow": self.shadow.to_dict(),
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Attack":
        """From a dictionary that `to_dict` made."""
        release = content["release"]
        return cls(
            release=None if release is None else ReleaseTest.of(release),
            shadow=ShadowTest.of(content["shadow"]),
            note=content["note"],
        )

    def rounded(self) -> "Attack":
        """The part that is kept for good. Which rows were targets is not part of it anyway."""
        release = None if self.release is None else self.release.rounded(DIGITS)
        return replace(self, release=release, shadow=self.shadow.rounded(DIGITS))
