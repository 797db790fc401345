"""Unlearn rows of a classifier.

Half of the rows on the right leave. The unlearned boundary lies where a retraining without them
would put it, and the model never looked at the rows that stay.
"""

import matplotlib.pyplot as plt
import numpy as np

import unfit

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 400)
X = rng.normal(size=(400, 2)) + 1.5 * y[:, None] * [1, 0.6]
leaving = np.flatnonzero((X[:, 0] > 1.5) & (rng.random(400) < 0.7))

before = unfit.LogisticRegression(l2=1e-3).fit(X, y)
after = unfit.LogisticRegression(l2=1e-3).fit(X, y).unlearn(leaving)
retrained = unfit.LogisticRegression(l2=1e-3).fit(np.delete(X, leaving, 0), np.delete(y, leaving))

print(f"{len(leaving)} of {len(y)} rows were unlearned")
print(f"distance to a retraining before: {np.linalg.norm(before.coef_ - retrained.coef_):.3f}")
print(f"distance to a retraining after:  {np.linalg.norm(after.coef_ - retrained.coef_):.3f}")

figure, axes = plt.subplots()
axes.scatter(*np.delete(X, leaving, 0).T, c=np.delete(y, leaving), s=9, cmap="coolwarm", alpha=0.5)
axes.scatter(*X[leaving].T, s=12, facecolors="none", edgecolors="0.6", label="unlearned rows")
at = np.array([-3.0, 5.0])
for model, label, style in [
    (before, "before", "0.6"),
    (after, "unlearned", "C2"),
    (retrained, "retrained", "k:"),
]:
    (a, b), c = model.coef_[0], model.intercept_[0]
    axes.plot(at, -(a * at + c) / b, style, label=label)
axes.set(xlim=(-3, 5), ylim=(-3.5, 4.5), title="Where the boundary lies")
axes.legend(loc="lower right", fontsize=8)
plt.show()
