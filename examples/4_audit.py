"""Audit what was forgotten.

An audit retrains from scratch on the rows that remain and asks how much of the deleted rows'
influence on the weights is left. It must fail for a model that unlearned nothing: here, one that
was only told to.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import unfit

X, y = load_digits(return_X_y=True)
X, y = X[y < 2] / 16, y[y < 2]
deleted = np.arange(12)

honest = unfit.LogisticRegression(l2=1e-3).fit(X, y).unlearn(deleted)
reports = {"unlearned": honest.audit()}

lazy = unfit.LogisticRegression(l2=1e-3).fit(X, y)
weights = lazy.coef_.copy(), lazy.intercept_.copy()
lazy.unlearn(deleted)
lazy.coef_, lazy.intercept_ = weights  # back to the weights that know everybody
reports["old weights"] = lazy.audit()

for name, report in reports.items():
    print(f"{name}: {report.verdict}")

figure, axes = plt.subplots(figsize=(7, 2))
axes.barh(list(reports), [100 * r.influence_left for r in reports.values()], color=["C2", "C3"])
axes.set(xlabel="influence of the deleted rows that is left, in percent", xlim=(0, 110))
for at, report in enumerate(reports.values()):
    axes.text(
        100 * report.influence_left + 1, at, f"{100 * report.influence_left:.3g} %", va="center"
    )
plt.show()
