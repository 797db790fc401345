"""Means, speed-ups, tables, claims and agreement, on runs whose answers are known."""

import numpy as np
import pytest
from findings_of import TOY, curve, findings, unlearned
from scipy import stats

from unfit.experiments import claims, published, tables
from unfit.experiments.agreement import agreements, explanation, farther
from unfit.experiments.runs import Run
from unfit.experiments.table import Table

LAWS = ("uniform-random", "uniform-informed", "targeted-random", "targeted-informed")


def timed(method, tau, sigma, fraction, unlearn, sgd=2.0, exact=1.0):
    return Run("timing", "toy", "targeted-informed", fraction, method, tau, sigma), {
        "seconds_unlearn": unlearn, "seconds_retrain_sgd": sgd, "seconds_retrain_exact": exact,
        "seconds_prepare": 0.5,
    }  # fmt: skip


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
    return findings(*(
        unlearned("fisher", "m", 0.0, f, law="targeted-random", acc_err_init=e, acc_dis=d)
        for f, (e, d) in errors.items()
    ))  # fmt: skip


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
    falling = {0.1: 0.9, 0.2: 0.8}
    steady = {0.1: 0.95, 0.2: 0.94}
    laws = [row for law in LAWS[:3] for row in curve(law, steady)]
    assert verdict(findings(*laws, *curve(LAWS[3], falling)), claims.worst_law).holds
    better = {0.1: 0.96, 0.2: 0.96}
    assert not verdict(findings(*laws, *curve(LAWS[3], better)), claims.worst_law).holds
    assert verdict(findings(*laws), claims.worst_law) is None

    mild = {0.01: 0.95, 0.5: 0.95, 0.9: 0.94, 0.995: 0.6}
    assert verdict(findings(*curve(LAWS[0], mild)), claims.uniform_random_is_mild).holds
    harsh = mild | {0.8: 0.9}
    assert not verdict(findings(*curve(LAWS[0], harsh)), claims.uniform_random_is_mild).holds

    def volumes(small, large):
        return findings(unlearned("fisher", "m", 0.0, 0.05, acc_dis=small),
                        unlearned("fisher", "m", 0.0, 0.2, acc_dis=large))  # fmt: skip

    assert verdict(volumes(1, 2), claims.grows_with_volume).holds
    assert not verdict(volumes(2, 1), claims.grows_with_volume).holds

    def taus(slow, fast):
        return findings(unlearned("fisher", "m/8", 0.0, 0.2, acc_dis=slow),
                        unlearned("fisher", "m", 0.0, 0.2, acc_dis=fast))  # fmt: skip

    assert verdict(taus(1, 2), claims.smaller_tau).holds
    assert not verdict(taus(3, 2), claims.smaller_tau).holds

    def sigmas(quiet, loud):
        return findings(
            unlearned("influence", "m", 0.01, 0.2, acc_dis=quiet, acc_err=loud),
            unlearned("influence", "m", 100.0, 0.2, acc_dis=loud, acc_err=quiet),
        )

    assert verdict(sigmas(2, 1), claims.sigma_lowers_disparity).holds
    assert verdict(sigmas(2, 1), claims.sigma_raises_error).holds
    assert not verdict(sigmas(1, 2), claims.sigma_lowers_disparity).holds

    def speeds(**seconds):
        rows = []
        for method, tau in (("influence", "m"), ("fisher", "m"), ("deltagrad", "T0=100")):
            rows += [unlearned(method, tau, 1.0, 0.2),
                     timed(method, tau, 1.0, 0.2, seconds[method])]  # fmt: skip
        return findings(*rows)

    good = speeds(influence=0.01, fisher=0.02, deltagrad=0.5)
    assert verdict(good, claims.order_of_efficiency).holds
    assert "INFLUENCE 200x" in verdict(good, claims.order_of_efficiency).figure
    assert not verdict(
        speeds(influence=0.03, fisher=0.02, deltagrad=0.5), claims.order_of_efficiency
    ).holds
    assert verdict(rehearsed(), claims.correlated).holds
    assert verdict(rehearsed(), claims.conservative).holds


def near_the_published(shift):
    rows = []
    for point in published.curves().itertuples():
        if point.dataset != "cifar2":
            continue
        law = published.LAWS.get(point.law, point.law)
        rows.append((Run("retrain", "cifar2", law, point.fraction), {
            "acc_test_retrained": point.acc_test_retrained + shift,
            "acc_deleted_retrained": point.acc_deleted_retrained,
        }))  # fmt: skip
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
    assert far["why"].str.contains("the test rows, but SGD").all()
    few = {"dataset": "cifar2", "law": "targeted-random", "fraction": 0.01}
    why = explanation(
        type(found)(found.frame, (subject,)), few | {"deleted_difference": 0.0792}, "deleted"
    )
    # 0.805 of 100 rows: 0.0396 a draw, one of ours against the mean of two
    assert "100 of them have a standard error of 0.040 a draw" in why
    assert "1.6 standard errors away" in why


def test_a_table_as_text_csv_latex_and_markdown():
    table = Table("t", "A title", ("name", "value"), ("", ".2f"),
                  (("a_b & c", 1.234), ("d", None)), "a note")  # fmt: skip
    assert table.text().splitlines()[2:5] == [
        "name     value", "-------  -----", "a_b & c   1.23"
    ]  # fmt: skip
    assert table.csv() == "name,value\na_b & c,1.234\nd,\n"
    assert r"a\_b \& c & 1.23 \\" in table.latex()
    assert "| a_b & c | 1.23 |" in table.markdown()
