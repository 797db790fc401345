"""The paper's claims, checked on our runs: each holds or not, data set by data set, with a figure.

A claim is a function of the findings and a data set to a Verdict, or to None where there are no
runs to judge by.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unfit.experiments import published
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.findings import Findings, Subject
from unfit.experiments.tables import correlations, estimates

LITTLE = 0.02  # of accuracy
STRONG = 0.8  # of Pearson's correlation
MILD = 10.0  # percentage points of AccDis
PAPER = ("fisher", "influence", "deltagrad")


@dataclass(frozen=True)
class Verdict:
    holds: bool
    figure: str


@dataclass(frozen=True)
class Claim:
    """sentence: what the paper says. figure: the name of where it can be seen."""

    sentence: str
    figure: str
    verdicts: dict[str, Verdict]

    @property
    def summary(self) -> str:
        held = sum(v.holds for v in self.verdicts.values())
        return f"holds on {held} of {len(self.verdicts)} data sets"


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
    laws = ("uniform-random", "uniform-informed", "targeted-random", "targeted-informed")
    curves = {law: _curve(findings, subject, law) for law in laws}
    shared = set.intersection(*(set(curve) for curve in curves.values()))
    if not shared:
        return None
    mean = {law: float(np.mean([curve[f] for f in shared])) for law, curve in curves.items()}
    shown = ", ".join(
        f"{law} {value:.3f}" for law, value in sorted(mean.items(), key=lambda x: x[1])
    )
    return Verdict(min(mean, key=mean.__getitem__) == laws[-1], f"mean test accuracy {shown}")


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


def _case(
    findings: Findings, subject: Subject, volume: str, sigma: float, method: str, measure: str,
    tau: int = -1,
) -> float | None:  # fmt: skip
    found = findings.case(subject, volume, sigma, method)
    if found.empty or measure not in found:
        return None
    found = found[found["tau"] == CONTENDERS[method].taus[tau].name]
    return float(found[measure].iloc[0]) if len(found) else None


def _pairs(
    findings: Findings, one: Callable[[str], float | None], other: Callable[[str], float | None],
    unit: str = "%",
) -> Verdict | None:  # fmt: skip
    """Whether the first is below the second for each of the paper's methods."""
    parts, holds = [], True
    for name in PAPER:
        contender, low, high = CONTENDERS[name], one(name), other(name)
        if low is None or high is None:
            continue
        holds &= low < high
        parts.append(f"{contender.label} {low:.2f} < {high:.2f} {unit}" if low < high
                     else f"{contender.label} {low:.2f}, not < {high:.2f} {unit}")  # fmt: skip
    return Verdict(holds, "; ".join(parts)) if parts else None


@claim("Disparity grows with the volume deleted.", "efficiency-certifiability")
def grows_with_volume(findings: Findings, subject: Subject) -> Verdict | None:
    return _pairs(
        findings,
        lambda m: _case(findings, subject, "small", 0.0, m, "acc_dis"),
        lambda m: _case(findings, subject, "large", 0.0, m, "acc_dis"),
    )


@claim("A smaller tau lowers disparity.", "efficiency-certifiability")
def smaller_tau(findings: Findings, subject: Subject) -> Verdict | None:
    return _pairs(
        findings,
        lambda m: _case(findings, subject, "large", 0.0, m, "acc_dis", 0),
        lambda m: _case(findings, subject, "large", 0.0, m, "acc_dis"),
    )


def _sigmas(findings: Findings) -> tuple[float, float]:
    noisy = [s for s in findings.of("unlearn")["sigma"].unique() if s > 0]
    return min(noisy, default=0.0), max(noisy, default=0.0)


@claim("A larger sigma lowers disparity.", "effectiveness-certifiability")
def sigma_lowers_disparity(findings: Findings, subject: Subject) -> Verdict | None:
    """At the largest sigma against the smallest; the least on the way is told too."""
    noisy = sorted(s for s in findings.of("unlearn")["sigma"].unique() if s > 0)
    parts, holds = [], True
    for name in PAPER:
        contender = CONTENDERS[name]
        found = {s: _case(findings, subject, "large", s, name, "acc_dis") for s in noisy}
        known = {s: value for s, value in found.items() if value is not None}
        if len(known) < 2:
            continue
        low, high = known[min(known)], known[max(known)]
        least = min(known, key=known.__getitem__)
        holds &= high < low
        parts.append(
            f"{contender.label} {low:.2f} % at {min(known):g}, {high:.2f} % at {max(known):g}, "
            f"least {known[least]:.2f} % at {least:g}"
        )
    return Verdict(holds, "; ".join(parts)) if parts else None


@claim("A larger sigma raises the error in test accuracy.", "effectiveness-certifiability")
def sigma_raises_error(findings: Findings, subject: Subject) -> Verdict | None:
    low, high = _sigmas(findings)
    return _pairs(
        findings,
        lambda m: _case(findings, subject, "large", low, m, "acc_err") if low < high else None,
        lambda m: _case(findings, subject, "large", high, m, "acc_err"),
    )


@claim("At the same sigma, noise moves INFLUENCE's model least and DELTAGRAD's most.", "noise")
def order_of_noise(findings: Findings, subject: Subject) -> Verdict | None:
    found = findings.of("train", dataset=subject.name, sigma=1.0)
    order = ("influence", "fisher", "deltagrad")
    if not set(order) <= set(found["method"]):
        return None
    means = found.groupby("method")[["distance", "acc_err"]].mean()
    far = [float(means.loc[m, "distance"]) for m in order]
    lost = [float(means.loc[m, "acc_err"]) for m in order]
    shown = ", ".join(
        f"{CONTENDERS[m].label} {d:.3g} (AccErr {e:.2f} %)"
        for m, d, e in zip(order, far, lost, strict=True)
    )
    return Verdict(far == sorted(far), f"L2 distance at sigma 1: {shown}")


@claim("INFLUENCE is the most efficient method, FISHER comes next.", "efficiency-certifiability")
def order_of_efficiency(findings: Findings, subject: Subject) -> Verdict | None:
    speed = {m: _case(findings, subject, "large", 1.0, m, "speed_up")
             for m in ("influence", "fisher", "deltagrad")}  # fmt: skip
    known = {m: s for m, s in speed.items() if s is not None and not np.isnan(s)}
    if len(known) < 3:
        return None
    shown = ", ".join(f"{CONTENDERS[m].label} {s:.3g}x" for m, s in known.items())
    return Verdict(known["influence"] >= known["fisher"] >= known["deltagrad"], shown)


@claim(
    "DELTAGRAD is no faster than retraining on data of few columns.", "efficiency-certifiability"
)
def deltagrad_is_slow(findings: Findings, subject: Subject) -> Verdict | None:
    if subject.d > 100:
        return None
    found = findings.case(subject, "large", 0.0, "deltagrad")
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
