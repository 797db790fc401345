"""Means, speed-ups, tables, claims and agreement, on runs whose answers are known."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from findings_of import TOY, curve, findings, unlearned
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unfit.experiments import claims, published, significance, tables
from unfit.experiments.agreement import agreements, explanation, farther
from unfit.experiments.runs import Run
from unfit.experiments.table import Table, three_digits

LAWS = ("uniform-random", "uniform-informed", "targeted-random", "targeted-informed")


def timed(method, tau, sigma, fraction, unlearn, sgd=2.0, exact=1.0):
    return Run("timing", "toy", "targeted-informed", fraction, method, tau, sigma), {
        "seconds_unlearn": unlearn,
        "seconds_retrain_sgd": sgd,
        "seconds_retrain_exact": exact,
        "seconds_prepare": 0.5,
    }


def test_a_case_is_the_mean_over_seeds_with_its_spread_and_speed_up():
    found = findings(
        unlearned("fisher", "m", 1.0, 0.2, seed=0, acc_dis=1.0),
        unlearned("fisher", "m", 1.0, 0.2, seed=1, acc_dis=3.0),
        unlearned("fisher", "m", 10.0, 0.2, seed=0, acc_dis=7.0),
        unlearned("fisher", "m/8", 1.0, 0.2, acc_dis=0.5),
        timed("fisher", "m", 1.0, 0.2, unlearn=0.02),
    )
    case = found.case(TOY, "large", 1.0, "fisher")
    assert list(case["tau"]) == ["m/8", "m"]
    assert list(case["acc_dis"]) == [0.5, 2.0]
    assert list(case["acc_dis_spread"]) == [0.0, 1.0]
    assert case["speed_up"].iloc[1] == 100.0
    assert np.isnan(case["speed_up"].iloc[0])
    loud = found.case(TOY, "large", 10.0, "fisher")
    assert loud["speed_up"].iloc[0] == 100.0  # how much noise does not change the work
    assert loud["speed_up_exact"].iloc[0] == 50.0


def test_volumes_are_read_off_between_the_points_of_the_curve():
    found = findings(*curve("targeted-informed", {0.1: 0.99, 0.2: 0.95, 0.3: 0.85}))
    line = found.curves
    assert tables.crossing(line, 1.0, 0.01) == pytest.approx(0.1)
    assert tables.crossing(line, 1.0, 0.05) == pytest.approx(0.2)
    assert tables.crossing(line, 1.0, 0.10) == pytest.approx(0.25)
    assert tables.crossing(line, 1.0, 0.5) is None


def rehearsed():
    errors = {0.1: (1.0, 2.0), 0.2: (2.0, 3.0), 0.45: (4.0, 8.0)}
    return findings(
        *(
            unlearned("fisher", "m", 0.0, f, law="targeted-random", acc_err_init=e, acc_dis=d)
            for f, (e, d) in errors.items()
        )
    )


def test_correlation_and_error_of_the_estimator_against_scipy_and_by_hand():
    found = rehearsed()
    pearson, spearman = tables.correlations(found, TOY)
    assert pearson == pytest.approx(stats.pearsonr([1, 2, 4], [2, 3, 8])[0])
    assert spearman == pytest.approx(1.0)
    table = tables.estimator_error(found)
    (row,) = table.rows
    assert row[1] == pytest.approx(((2 - 2) ** 2 + (4 - 3) ** 2 + 0) / 3)
    assert row[3] == pytest.approx(1 / 3)


def verdict(found, check):
    return check(found, TOY)


def test_claims_hold_and_do_not():
    at = [0.05, 0.1, 0.15, 0.2, 0.25]
    falling = {f: 0.95 - f for f in at}
    steady = dict.fromkeys(at, 0.94)
    laws = [row for law in LAWS[:3] for row in curve(law, steady)]
    assert verdict(findings(*laws, *curve(LAWS[3], falling)), claims.worst_law).holds
    better = dict.fromkeys(at, 0.96)
    assert verdict(findings(*laws, *curve(LAWS[3], better)), claims.worst_law).holds is False
    alike = {f: 0.94 + 0.001 * (-1) ** i for i, f in enumerate(at)}
    assert verdict(findings(*laws, *curve(LAWS[3], alike)), claims.worst_law).holds is None
    assert verdict(findings(*laws), claims.worst_law) is None

    mild = {0.01: 0.95, 0.5: 0.95, 0.9: 0.94, 0.995: 0.6}
    assert verdict(findings(*curve(LAWS[0], mild)), claims.uniform_random_is_mild).holds
    harsh = mild | {0.8: 0.9}
    assert not verdict(findings(*curve(LAWS[0], harsh)), claims.uniform_random_is_mild).holds

    def speeds(**seconds):
        rows = []
        for method, tau in (("influence", "m"), ("fisher", "m"), ("deltagrad", "T0=100")):
            rows += [
                unlearned(method, tau, 1.0, 0.2),
                timed(method, tau, 1.0, 0.2, seconds[method]),
            ]
        return findings(*rows)

    good = speeds(influence=0.01, fisher=0.02, deltagrad=0.5)
    assert verdict(good, claims.order_of_efficiency).holds
    assert "INFLUENCE 200x" in verdict(good, claims.order_of_efficiency).figure
    assert not verdict(
        speeds(influence=0.03, fisher=0.02, deltagrad=0.5), claims.order_of_efficiency
    ).holds
    assert verdict(rehearsed(), claims.correlated).holds
    assert verdict(rehearsed(), claims.conservative).holds


SEEDS = 6


def seeded(method, tau, sigma, fraction, acc_dis, retrained=None, **measures):
    """A case by seed: its disparity, and what the retrained models get right of the deleted."""
    for seed in range(SEEDS):
        yield unlearned(
            method,
            tau,
            sigma,
            fraction,
            seed,
            acc_dis=acc_dis[seed],
            acc_deleted_retrained=0.5 if retrained is None else retrained[seed],
            **{name: values[seed] for name, values in measures.items()},
        )


def around(value, spread=0.1):
    return [value + spread * (seed % 3 - 1) for seed in range(SEEDS)]


def two(first, second):
    return findings(*first, *second)


def test_disparity_is_judged_above_what_retrainings_differ_by():
    """At the large volume AccDis is twice as large, and so is its floor: nothing grows."""
    steady, jumping = [0.5] * SEEDS, [0.5 + 0.02 * (-1) ** seed for seed in range(SEEDS)]
    small = list(seeded("fisher", "m", 0.0, 0.05, around(2.0), steady))
    loud = list(seeded("fisher", "m", 0.0, 0.2, around(4.4), jumping))
    found = two(small, loud)
    floor = found.by_seed(TOY, "acc_dis_floor", volume="large", method="fisher", tau="m", sigma=0.0)
    assert floor[0] == pytest.approx(3 / 5 * 100 * 0.04 / 1.0)  # three of the five others differ
    above = found.by_seed(TOY, "acc_dis_above", volume="large", method="fisher", tau="m", sigma=0.0)
    assert np.mean(list(above.values())) == pytest.approx(2.0)
    assert claims.grows_with_volume(found, TOY).holds is None  # AccDis alone would say it does
    quiet = two(small, seeded("fisher", "m", 0.0, 0.2, around(4.4), steady))
    verdict = claims.grows_with_volume(quiet, TOY)
    assert verdict.holds
    assert "FISHER 2.00 < 4.40 points above the floor (p 0.016, 6 seeds)" in verdict.figure
    falling = two(
        seeded("fisher", "m", 0.0, 0.05, around(5.0)), seeded("fisher", "m", 0.0, 0.2, around(3.0))
    )
    assert claims.grows_with_volume(falling, TOY).holds is False


def test_what_few_seeds_show_is_not_told():
    few = [
        row
        for case in ((0.05, 1.0), (0.2, 9.0))
        for row in list(seeded("fisher", "m", 0.0, case[0], around(case[1])))[:4]
    ]
    verdict = claims.grows_with_volume(findings(*few), TOY)
    assert verdict.holds is None
    assert verdict.said == "cannot be told"
    claim = claims.Claim("x", "y", {"Toy": verdict, "Joy": claims.Verdict(True, "")})
    assert claim.summary == "holds on 1 of 2 data sets, cannot be told on 1"


def test_a_smaller_tau_and_a_larger_sigma():
    taus = two(
        seeded("fisher", "m/8", 0.0, 0.2, around(1.0)), seeded("fisher", "m", 0.0, 0.2, around(2.0))
    )
    assert claims.smaller_tau(taus, TOY).holds

    def sigmas(quiet, loud):
        return two(
            seeded("influence", "m", 0.01, 0.2, around(quiet), acc_err=around(loud)),
            seeded("influence", "m", 100.0, 0.2, around(loud), acc_err=around(quiet)),
        )

    assert claims.sigma_lowers_influence(sigmas(2, 1), TOY).holds
    assert claims.sigma_lowers_influence(sigmas(1, 2), TOY).holds is False
    assert claims.sigma_lowers_fisher(sigmas(2, 1), TOY) is None
    assert claims.sigma_raises_error(sigmas(2, 1), TOY).holds
    figure = claims.sigma_lowers_influence(sigmas(2, 1), TOY).figure
    assert "2.00 at 0.01 (floor 0.00), 1.00 at 100 (floor 0.00)" in figure


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=9))
def test_the_sign_flips_against_counting_them(differences):
    """p as counted in exact arithmetic over all patterns of signs."""
    exact = [Fraction(value) for value in differences]
    patterns = list(product((1, -1), repeat=len(exact)))
    sums = [sum(s * v for s, v in zip(signs, exact, strict=True)) for signs in patterns]
    at_least = sum(total >= sum(exact) for total in sums) / len(patterns)
    near = sum(total >= sum(exact) - max(map(abs, exact)) / 10**9 for total in sums) / len(patterns)
    assert at_least <= significance.p_value(differences) + 1e-12 <= near + 2e-12


def test_many_differences_are_sampled():
    rng = np.random.default_rng(1)
    assert significance.p_value(rng.normal(1.0, 0.5, 30)) < 0.001
    assert significance.p_value(rng.normal(0.0, 0.5, 30)) > 0.01


def test_every_figure_in_a_claim_comes_from_the_runs(tiny):
    """Change what was measured, and each sentence with a figure changes: none of them is typed."""
    _, _, outcome = tiny

    def changed(seed: int) -> dict[str, claims.Claim]:
        frame = outcome.findings.frame.copy()
        measures = frame.select_dtypes("floating").columns.difference(["fraction", "sigma"])
        factors = np.random.default_rng(seed).uniform(0.4, 0.7, (len(frame), len(measures)))
        frame[measures] = frame[measures] * factors
        found = claims.claims(type(outcome.findings)(frame, outcome.findings.subjects))
        return {claim.sentence: claim for claim in found}

    others = [changed(seed) for seed in range(3)]  # a ratio of few digits may be the same by chance
    assert len(outcome.claims) >= 10
    for claim in outcome.claims:
        for title, verdict in claim.verdicts.items():
            figures = {other[claim.sentence].verdicts[title].figure for other in others}
            assert figures != {verdict.figure}


def near_the_published(shift):
    rows = []
    for point in published.curves().itertuples():
        if point.dataset != "cifar2":
            continue
        rows.append(
            (
                Run("retrain", "cifar2", point.law, point.fraction),
                {
                    "acc_test_retrained": point.acc_test_retrained + shift,
                    "acc_deleted_retrained": point.acc_deleted_retrained,
                },
            )
        )
    return findings(*rows)


@pytest.mark.parametrize(("shift", "within"), [(0.009, True), (0.011, False), (0.031, False)])
def test_agreement_is_judged_by_mean_and_by_largest(shift, within):
    test, deleted = agreements(near_the_published(shift))
    assert test.within is within
    assert test.mean == pytest.approx(shift)
    assert deleted.within
    assert deleted.mean == pytest.approx(0)


def test_values_far_off_are_listed_with_a_reason():
    found = near_the_published(0.02)
    subject = TOY.__class__(**(TOY.__dict__ | {"name": "cifar2", "n": 10_000, "n_test": 2000}))
    far = farther(type(found)(found.frame, (subject,)))
    assert len(far) == agreements(found)[0].count
    assert far["why"].str.contains("the test rows; with one seed of ours nothing can be").all()
    few = {"dataset": "cifar2", "law": "targeted-random", "fraction": 0.01}
    why = explanation(
        type(found)(found.frame, (subject,)), few | {"deleted_difference": 0.0792}, "deleted"
    )
    # 0.805 of 100 rows: 0.0396 a draw, one of ours against the mean of two
    assert "100 of them have a standard error of 0.040 a draw" in why
    assert "1.6 standard errors away" in why


def test_sgd_explains_a_difference_only_where_its_seeds_reach_the_published_value():
    rows = [
        (
            Run("retrain", "cifar2", "targeted-informed", 0.2, seed=seed),
            {"acc_test_retrained": 0.77 + 0.01 * seed, "acc_deleted_retrained": 0.4},
        )
        for seed in range(3)
    ]
    found, case = (
        findings(*rows),
        {"dataset": "cifar2", "law": "targeted-informed", "fraction": 0.2},
    )
    inside = explanation(found, case | {"test_published": 0.775}, "test")
    assert "SGD with a fixed learning rate stops elsewhere each time: our 3 seeds" in inside
    outside = explanation(found, case | {"test_published": 0.81}, "test")
    assert "not explained by where SGD stops: our 3 seeds span 0.770 to 0.790" in outside


def test_a_table_as_text_csv_latex_and_markdown():
    table = Table(
        name="t",
        title="A title",
        columns=("name", "value"),
        formats=("", ".2f"),
        rows=(("a_b & c", 1.234), ("d", None)),
        note="a note",
    )
    assert table.text().splitlines()[2:5] == ["name     value", "-------  -----", "a_b & c   1.23"]
    assert table.csv() == "name,value\na_b & c,1.234\nd,\n"
    assert r"a\_b \& c & 1.23 \\" in table.latex()
    assert "| a_b & c | 1.23 |" in table.markdown()


def test_ratios_are_shown_with_three_digits_and_no_exponent():
    shown = [three_digits(x) for x in (0.0043612, 1.4349, 83.72, 366.4, 999.4, 999.6, 2397.2)]
    assert shown == ["0.00436", "1.43", "83.7", "366", "999", "1,000", "2,397"]
