"""Audit what was forgotten.

An audit retrains from scratch on the rows that remain and asks how much of the deleted rows'
influence on the weights is left. Here most of a class leaves. One large step leaves too much
behind, and the audit says so; steps of a few rows each come close to a retraining.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import unfit

X, y = load_digits(return_X_y=True)
X, y = X[y < 2] / 16, y[y < 2]
leaving = np.flatnonzero(y == 1)[:140]

left = {}
for size in (140, 35, 14, 7):
    model = unfit.LogisticRegression(l2=0.01, deletion_batch_size=size).fit(X, y)
    report = model.unlearn(leaving).audit()
    left[f"{size} rows a step"] = 100 * report.influence_left
    print(f"{size} rows a step: {report.outcome}")

figure, axes = plt.subplots(figsize=(7, 2))
axes.barh(list(left), list(left.values()), color=["C3" if v > 10 else "C2" for v in left.values()])
axes.axvline(10, color="k", linewidth=0.8, linestyle="--")
axes.set(xlabel="influence of the deleted rows that is left, in percent (10: the limit)")
plt.show()
