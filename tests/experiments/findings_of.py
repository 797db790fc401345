"""Findings made by hand, for tests that know what must be found in them."""

import pandas as pd

from unfit.experiments.findings import Findings, Subject
from unfit.experiments.runs import Run

TOY = Subject(
    name="toy",
    title="Toy",
    n=1000,
    n_test=200,
    d=10,
    k=2,
    volumes=(0.05, 0.1, 0.2),
    theta=0.45,
    epochs=10,
    batch_size=32,
    burn_in=5,
    intercept=True,
    target=0,
    about="made up",
    speed_only=False,
)


def findings(*rows, subjects=(TOY,)):
    """rows: (Run, measures)."""
    table = [run.__dict__ | measures for run, measures in rows]
    return Findings(pd.DataFrame(table), subjects)


def unlearned(method, tau, sigma, fraction, seed=0, law="targeted-informed", **measures):
    known = {
        "acc_err": 1.0,
        "acc_dis": 1.0,
        "acc_err_init": 1.0,
        "acc_test_unlearned": 0.9,
        "acc_deleted_retrained": 0.5,
    }
    return Run("unlearn", "toy", law, fraction, method, tau, sigma, seed), known | measures


def curve(law, accuracies, seed=0, dataset="toy"):
    return [
        (
            Run("retrain", dataset, law, fraction, seed=seed),
            {"acc_test_retrained": value, "acc_deleted_retrained": value},
        )
        for fraction, value in accuracies.items()
    ]
