"""The paper's claims, checked on our runs: each holds or not, data set by data set, with a figure.

A claim is a function of the findings and a data set to a Verdict, or to None where there are no
runs to judge by. Statements about disparity are about what is above its floor, and differences are
tested over seeds (`significance`): what the seeds do not tell is said to be open.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from unfit.experiments import published
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.findings import Findings, Subject
from unfit.experiments.significance import Comparison, compare
from unfit.experiments.table import three_digits
from unfit.experiments.tables import correlations, estimates

LITTLE = 0.02  # of accuracy
STRONG = 0.8  # of Pearson's correlation
MILD = 10.0  # percentage points of AccDis
PAPER = ("fisher", "influence", "deltagrad")


@dataclass(frozen=True)
class Verdict:
    """holds: None where the runs cannot tell. figure: what was found, in figures."""

    holds: bool | None
    figure: str

    @property
    def said(self) -> str:
        return {True: "holds", False: "does not hold", None: "cannot be told"}[self.holds]


@dataclass(frozen=True)
class Claim:
    """sentence: what the paper says. figure: the name of where it can be seen."""

    sentence: str
    figure: str
    verdicts: dict[str, Verdict]

    @property
    def summary(self) -> str:
        held, open_ = (sum(v.holds is x for v in self.verdicts.values()) for x in (True, None))
        left = f", cannot be told on {open_}" if open_ else ""
        return f"holds on {held} of {len(self.verdicts)} data sets{left}"


Check = Callable[[Findings, Subject], Verdict | None]
CHECKS: list[tuple[str, str, Check]] = []


def claim(sentence: str, figure: str) -> Callable[[Check], Check]:
    def kept(check: Check) -> Check:
        CHECKS.append((sentence, figure, check))
        return check

    return kept


def claims(findings: Findings) -> list[Claim]:
    """Every claim that there are runs for."""
    found = []
    for sentence, figure, check in CHECKS:
        verdicts = {s.title: v for s in findings.real if (v := check(findings, s)) is not None}
        if verdicts:
            found.append(Claim(sentence, figure, verdicts))
    return found


def _curve(findings: Findings, subject: Subject, law: str) -> dict[float, float]:
    found = findings.curves
    if found.empty:
        return {}
    found = found[(found["dataset"] == subject.name) & (found["law"] == law)]
    return dict(zip(found["fraction"], found["acc_test_retrained"], strict=True))


@claim("Targeted-informed deletion is the worst of the laws.", "deletion-laws")
def worst_law(findings: Findings, subject: Subject) -> Verdict | None:
    """Against the next worst, tested over the fractions that were deleted."""
    laws = ("uniform-random", "uniform-informed", "targeted-random", "targeted-informed")
    curves = {law: _curve(findings, subject, law) for law in laws}
    shared = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    if not shared:
        return None
    mean = {law: float(np.mean([curve[f] for f in shared])) for law, curve in curves.items()}
    ranked = sorted(mean.items(), key=lambda x: x[1])
    shown = ", ".join(f"{law} {value:.4f}" for law, value in ranked)
    rival = next(law for law, _ in ranked if law != laws[-1])
    by_fraction = {
        law: {i: curves[law][f] for i, f in enumerate(shared)} for law in (laws[-1], rival)
    }
    tested = compare(by_fraction[laws[-1]], by_fraction[rival])
    assert tested is not None
    return Verdict(
        tested.larger,
        f"mean test accuracy {shown}; against {rival}, p {tested.p:.3f} over {len(shared)} "
        "fractions",
    )


@claim(
    "Uniform-random deletions of less than 90 % of the rows cost little test accuracy.",
    "deletion-laws-extended",
)
def uniform_random_is_mild(findings: Findings, subject: Subject) -> Verdict | None:
    return _mild(findings, subject, "uniform-random")


@claim(
    "Uniform-informed deletions of less than 90 % of the rows cost little test accuracy.",
    "deletion-laws-extended",
)
def uniform_informed_is_mild(findings: Findings, subject: Subject) -> Verdict | None:
    return _mild(findings, subject, "uniform-informed")


def _mild(findings: Findings, subject: Subject, law: str) -> Verdict | None:
    curve = _curve(findings, subject, law)
    if len(curve) < 2 or min(curve) > 0.05 or max(curve) < 0.8:
        return None
    upto = {f: a for f, a in curve.items() if f < 0.9}
    first, lowest = curve[min(curve)], min(upto.values())
    half = min(a for f, a in curve.items() if f <= 0.5)
    return Verdict(
        first - lowest <= LITTLE,
        f"{first:.3f} at first, {half:.3f} by half, {lowest:.3f} below 90 %, "
        f"{curve[max(curve)]:.3f} at {max(curve):.1%}",
    )


def _tau(method: str, which: int) -> str:
    return CONTENDERS[method].taus[which].name


def _tested(
    first: Callable[[str], dict[int, float]], second: Callable[[str], dict[int, float]], unit: str
) -> Verdict | None:
    """Whether the second is larger than the first, seed by seed, for each of the paper's methods.

    It holds if it is so for all of them; it does not if the opposite is for one.
    """
    parts, told = [], []
    for name in PAPER:
        found = compare(first(name), second(name))
        if found is None:
            continue
        told.append(found.larger)
        sign = {True: "<", False: ">", None: "~"}[found.larger]
        parts.append(
            f"{CONTENDERS[name].label} {found.low:.2f} {sign} {found.high:.2f} {unit} ({_p(found)})"
        )
    return Verdict(_all(told), "; ".join(parts)) if parts else None


def _p(found: Comparison) -> str:
    return f"p {found.p:.3f}, {found.seeds} seeds"


def _all(told: Sequence[bool | None]) -> bool | None:
    """All of them hold, one of them does not, or it cannot be told."""
    if False in told:
        return False
    return None if None in told else True


@claim("Disparity grows with the volume deleted.", "efficiency-certifiability")
def grows_with_volume(findings: Findings, subject: Subject) -> Verdict | None:
    """AccDis above its floor, small volume and large, without noise, at the largest tau."""

    def above(volume: str) -> Callable[[str], dict[int, float]]:
        return lambda m: findings.by_seed(
            subject, "acc_dis_above", volume=volume, method=m, tau=_tau(m, -1), sigma=0.0
        )

    return _tested(above("small"), above("large"), "points above the floor")


@claim("A smaller tau lowers disparity.", "efficiency-certifiability")
def smaller_tau(findings: Findings, subject: Subject) -> Verdict | None:
    """AccDis above its floor, smallest tau and largest, without noise, at the large volume."""

    def above(which: int) -> Callable[[str], dict[int, float]]:
        return lambda m: findings.by_seed(
            subject, "acc_dis_above", volume="large", method=m, tau=_tau(m, which), sigma=0.0
        )

    return _tested(above(0), above(-1), "points above the floor")


def _sigmas(findings: Findings) -> list[float]:
    return sorted(s for s in findings.of("unlearn")["sigma"].unique() if s > 0)


def _at_sigma(
    findings: Findings, subject: Subject, method: str, measure: str, sigma: float
) -> dict[int, float]:
    return findings.by_seed(
        subject, measure, volume="large", method=method, tau=_tau(method, -1), sigma=sigma
    )


@claim("A larger sigma lowers disparity: FISHER.", "effectiveness-certifiability")
def sigma_lowers_fisher(findings: Findings, subject: Subject) -> Verdict | None:
    return _sigma_lowers(findings, subject, "fisher")


@claim("A larger sigma lowers disparity: INFLUENCE.", "effectiveness-certifiability")
def sigma_lowers_influence(findings: Findings, subject: Subject) -> Verdict | None:
    return _sigma_lowers(findings, subject, "influence")


@claim("A larger sigma lowers disparity: DELTAGRAD.", "effectiveness-certifiability")
def sigma_lowers_deltagrad(findings: Findings, subject: Subject) -> Verdict | None:
    return _sigma_lowers(findings, subject, "deltagrad")


def _sigma_lowers(findings: Findings, subject: Subject, method: str) -> Verdict | None:
    """AccDis above its floor: the smallest sigma against the largest; those between are told."""
    found = {s: _at_sigma(findings, subject, method, "acc_dis_above", s) for s in _sigmas(findings)}
    floor = {s: _at_sigma(findings, subject, method, "acc_dis_floor", s) for s in _sigmas(findings)}
    known = {s: by_seed for s, by_seed in found.items() if by_seed}
    if len(known) < 2:
        return None
    tested = compare(known[max(known)], known[min(known)])
    if tested is None:
        return None
    shown = ", ".join(
        f"{_mean(values):.2f} at {s:g} (floor {_mean(floor[s]):.2f})" for s, values in known.items()
    )
    return Verdict(tested.larger, f"points above the floor: {shown}; {_p(tested)}")


def _mean(by_seed: Mapping[int, float]) -> float:
    return float(np.mean(list(by_seed.values())))


@claim("A larger sigma raises the error in test accuracy.", "effectiveness-certifiability")
def sigma_raises_error(findings: Findings, subject: Subject) -> Verdict | None:
    noisy = _sigmas(findings)
    if len(noisy) < 2:
        return None
    return _tested(
        lambda m: _at_sigma(findings, subject, m, "acc_err", noisy[0]),
        lambda m: _at_sigma(findings, subject, m, "acc_err", noisy[-1]),
        f"% at sigma {noisy[0]:g} and {noisy[-1]:g}",
    )


@claim("At the same sigma, noise moves INFLUENCE's model least and DELTAGRAD's most.", "noise")
def order_of_noise(findings: Findings, subject: Subject) -> Verdict | None:
    found = findings.of("train", dataset=subject.name, sigma=1.0)
    order = ("influence", "fisher", "deltagrad")
    if not set(order) <= set(found["method"]):
        return None
    far = {
        m: dict(zip(rows["seed"], rows["distance"], strict=True))
        for m, rows in found.groupby("method")
    }
    lost = found.groupby("method")["acc_err"].mean()
    pairs = [compare(far[one], far[other]) for one, other in pairwise(order)]
    told = [pair.larger for pair in pairs if pair is not None]
    shown = ", ".join(
        f"{CONTENDERS[m].label} {_mean(far[m]):.3g} (AccErr {lost[m]:.2f} %)" for m in order
    )
    tests = " and ".join(_p(pair) for pair in pairs if pair is not None)
    return Verdict(_all(told), f"L2 distance at sigma 1: {shown}; {tests}")


def _speed(findings: Findings, subject: Subject, method: str) -> float | None:
    found = findings.case(subject, "large", 1.0, method)
    found = found[found["tau"] == _tau(method, -1)] if len(found) else found
    if found.empty or np.isnan(found["speed_up"].iloc[0]):
        return None
    return float(found["speed_up"].iloc[0])


@claim("INFLUENCE is the most efficient method, FISHER comes next.", "efficiency-certifiability")
def order_of_efficiency(findings: Findings, subject: Subject) -> Verdict | None:
    speed = {m: _speed(findings, subject, m) for m in ("influence", "fisher", "deltagrad")}
    known = {m: s for m, s in speed.items() if s is not None}
    if len(known) < 3:
        return None
    shown = ", ".join(f"{CONTENDERS[m].label} {three_digits(s)}x" for m, s in known.items())
    return Verdict(known["influence"] >= known["fisher"] >= known["deltagrad"], shown)


@claim(
    "DELTAGRAD is no faster than retraining on data of few columns.", "efficiency-certifiability"
)
def deltagrad_is_slow(findings: Findings, subject: Subject) -> Verdict | None:
    if subject.d > 100:
        return None
    found = findings.case(subject, "large", 1.0, "deltagrad")
    found = found[found["tau"] == "T0=50"] if len(found) else found
    if found.empty or np.isnan(found["speed_up"].iloc[0]):
        return None
    speed = float(found["speed_up"].iloc[0])
    return Verdict(speed <= 1.0, f"{speed:.2g}x at T0 = 50")


@claim(
    f"AccErr_init tells of AccDis: they are strongly correlated (Pearson over {STRONG:g}), but on "
    "HIGGS.",
    "correlation",
)
def correlated(findings: Findings, subject: Subject) -> Verdict | None:
    both = correlations(findings, subject)
    if both is None:
        return None
    theirs = published.PEARSON.get(subject.name)
    said = f" (published {theirs:g})" if theirs is not None else ""
    return Verdict(both[0] >= STRONG, f"Pearson {both[0]:.3f}{said}")


@claim(
    "The estimate of disparity is conservative: it overestimates mildly "
    f"(by 0 to {MILD:g} points).",
    "estimator-error",
)
def conservative(findings: Findings, subject: Subject) -> Verdict | None:
    found = estimates(findings, subject)
    if found is None:
        return None
    mean = float((found["estimate"] - found["acc_dis"]).mean())
    return Verdict(0 <= mean <= MILD, f"on average {mean:+.2f} points from the true AccDis")
