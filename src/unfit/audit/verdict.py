"""The verdict of an audit: forgotten, not forgotten, or cannot tell. Pure: numbers in, words out.

With the deleted rows at hand it rests on the influence that is left,

    |updated - retrained| / |control - retrained|,

0 for a model that is as retrained, 1 for one that never unlearned. Without them it rests on what
single remaining rows weigh: a model that is much closer to the retrained one than any one row
would move it cannot contain a row more. Where noise was added and nobody kept the weights from
before, it rests on where the model stands among retrainings with noise of their own.
"""

from dataclasses import dataclass
from typing import Literal

from scipy import special

Outcome = Literal["forgotten", "not forgotten", "cannot tell"]

LIMIT = 0.1  # the share of the deleted rows' influence that may be left
SEPARATION = 4.0  # spreads between the retrained and the control below which noise hides it
HIDES_A_ROW = 0.5  # of a typical row's influence: a distance in which one row would be lost
NEVER = 1e-6  # a chance below which noise is not what it is said to be
_ABOVE_ROUNDING = 10.0  # times the numerical floor that a measurable influence must be


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class OneRow:
    """Influences of single remaining rows: of all but 5 % more than low, of all but 5 % less than
    high; typical is the median."""

    low: float
    typical: float
    mean: float
    high: float


@dataclass(frozen=True)
class Distances:
    """Lengths from the retrained weights, all in one norm.

    updated: of the weights in question. control: of a model that never unlearned, where the
    deleted rows are at hand. along: how far from the retrained (0) to the control (1) the weights
    lie in its direction. floor: what the retraining itself may be off by. whole: all deleted rows
    are at hand.
    """

    updated: float
    floor: float
    control: float | None = None
    along: float | None = None
    whole: bool = True
    one_row: OneRow | None = None

    @property
    def influence_left(self) -> float | None:
        return self.updated / self.control if self.control else None

    @property
    def rows_left(self) -> float | None:
        """The distance in influences of a typical row."""
        if self.one_row is None or self.one_row.typical == 0:
            return None
        return self.updated / self.one_row.typical

    @property
    def measurable(self) -> bool:
        """Whether the control stands out from rounding."""
        return self.control is not None and LIMIT * self.control > _ABOVE_ROUNDING * self.floor


@dataclass(frozen=True)
class Behaviour:
    """What differs in what the models say, in percent: probabilities on test rows on average, and
    AccDis, with how many deleted rows it rests on."""

    probabilities: float
    acc_dis: float | None
    rows_apart: int


@dataclass(frozen=True)
class Noise:
    """Where the weights lie among retrainings with fresh noise, from retrained (0) to control (1).

    spread: one standard deviation of retrainings, in the same unit.
    """

    sigma: float
    position: float
    spread: float


@dataclass(frozen=True)
class Added:
    """What was added to the centre: its squared length, between low and high, in the unit in which
    noise of this sigma is chi-squared with so many degrees."""

    sigma: float
    low: float
    high: float
    degrees: int

    @property
    def is_noise(self) -> bool:
        """Neither longer nor shorter than noise of this sigma is."""
        most = float(special.chdtri(self.degrees, NEVER))
        least = 2 * float(special.gammaincinv(self.degrees / 2, NEVER))
        return self.low <= most and self.high >= least  # False for what is not a number


def judge_distances(d: Distances, seen: Behaviour, threshold: float, n_deleted: int) -> Verdict:
    """Weights without noise against a retraining without noise."""
    if d.control is None:
        return _by_single_rows(d, n_deleted)
    left = d.influence_left
    if left is None or not d.measurable:
        return Verdict(
            "cannot tell",
            f"the deleted rows would move the model by {d.control:.1e}, too little beside the "
            f"rounding of a retraining, {d.floor:.1e}",
        )
    share = f"{percent(left)} of the deleted rows' influence on the weights is left"
    if left > LIMIT:
        if not d.whole and (d.along is None or d.along < 0.5):
            return Verdict(
                "cannot tell",
                f"the model differs from a retraining by {percent(left)} of the influence of those "
                "deleted rows that are at hand, and it may be that of the others",
            )
        return Verdict("not forgotten", f"{share}; at most {percent(LIMIT)} may be")
    if seen.probabilities > threshold:
        return Verdict(
            "not forgotten",
            f"predicted probabilities differ by {seen.probabilities:.3g} points on average from "
            f"those of a retraining, over the threshold of {threshold:g}",
        )
    if seen.acc_dis is not None and seen.acc_dis > threshold and seen.rows_apart > 1:
        return Verdict(
            "not forgotten",
            f"AccDis {seen.acc_dis:.3g} % is over the threshold of {threshold:g} %",
        )
    expected = _expected_at_most(d, n_deleted)
    if expected is not None and d.updated > max(LIMIT * expected, _ABOVE_ROUNDING * d.floor):
        return Verdict(
            "cannot tell",
            f"{share}, but these rows weigh more than {n_deleted:,} can be expected to, and the "
            f"distance to a retraining is over {percent(LIMIT)} of that; make sure that they are "
            "the deleted rows",
        )
    return Verdict("forgotten", share + _power(d))


def _expected_at_most(d: Distances, n_deleted: int) -> float | None:
    """If all deleted rows had pulled the same way, and one of them harder than 19 in 20 rows do."""
    one = d.one_row
    return None if one is None else one.high + max(0, n_deleted - 1) * one.mean


def _power(d: Distances) -> str:
    """What a distance of this size could still hide."""
    rows = d.rows_left
    if rows is None or rows < HIDES_A_ROW:
        return ""
    return f", as much as {rows:.2g} single rows have: one row alone would not be noticed beside it"


def _by_single_rows(d: Distances, n_deleted: int) -> Verdict:
    one, rows = d.one_row, d.rows_left
    advice = "give the deleted rows (--deleted FILE), or keep them for a while (audit_window)"
    if one is None or rows is None:
        return Verdict(
            "cannot tell", f"without the deleted rows their influence is unknown; {advice}"
        )
    if LIMIT * one.low <= _ABOVE_ROUNDING * d.floor:
        return Verdict(
            "cannot tell",
            f"single rows weigh too little beside the rounding of a retraining; {advice}",
        )
    said = f"the weights are {rows:.2g} of a typical row's influence away from a retraining"
    if d.updated <= LIMIT * one.low:
        return Verdict("forgotten", f"{said}, too close to contain a row more")
    expected = _expected_at_most(d, n_deleted)
    if expected is not None and d.updated > LIMIT * expected:
        return Verdict(
            "not forgotten",
            f"{said}, over {percent(LIMIT)} of what {n_deleted:,} rows can be expected to weigh at "
            "most",
        )
    return Verdict(
        "cannot tell", f"{said}; the deleted rows may weigh more than that, or less: {advice}"
    )


def judge_released(exact: Verdict, added: Added | None, noise: Noise | None) -> Verdict:
    """Weights that were released with noise, where those from before it were judged exactly."""
    if exact.outcome == "not forgotten":
        return exact
    if added is not None and not added.is_noise:
        return Verdict(
            "not forgotten",
            "the active weights are not the centre plus noise of the size that sigma "
            f"{added.sigma:g} says",
        )
    released = None if noise is None else judge_noise(noise)
    if released is not None and released.outcome == "not forgotten":
        return released
    if exact.outcome == "forgotten" and (released is None or released.outcome == "cannot tell"):
        return Verdict(
            "forgotten",
            f"{exact.reason}; this was measured before noise, and the active weights differ from "
            "those by noise of this sigma alone",
        )
    return exact


def judge_noise(noise: Noise) -> Verdict:
    """Weights with noise, among retrainings with noise of their own."""
    apart = 1.0 / noise.spread if noise.spread > 0 else float("inf")
    origin = f"the noise (sigma {noise.sigma:g})" if noise.sigma else "chance in training"
    if apart < SEPARATION:
        return Verdict(
            "cannot tell",
            f"{origin} hides the deleted rows' influence: retrainings scatter by "
            f"{noise.spread:.2g} times as much as the deleted rows move the model, so nobody could "
            "tell from these weights",
        )
    where = (
        f"{percent(noise.position)} of the way from retrained models to one that never unlearned"
    )
    if noise.position > 0.5:
        return Verdict("not forgotten", f"the weights are {where}")
    return Verdict(
        "forgotten",
        f"the weights are {where}, and retrainings scatter by {percent(noise.spread)} of it",
    )


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"
