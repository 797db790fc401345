"""A pipeline whose scaler forgets, too.

A scaler remembers the people it was fitted on: its mean gives a person away who leaves.
`unfit.Pipeline` fits its steps again on the rows that remain, and its audit looks at them as
well.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import unfit

X, y = load_breast_cancer(return_X_y=True)
largest = np.argsort(X[:, 3])[-25:]  # the people with the largest value of one column

pipeline = unfit.Pipeline([("scale", StandardScaler()), ("model", unfit.LogisticRegression())])
pipeline.fit(X, y)
before = pipeline["scale"].mean_.copy()
pipeline.unlearn(largest)
after = pipeline["scale"].mean_
refitted = StandardScaler().fit(np.delete(X, largest, 0)).mean_

print(f"{pipeline.n_remaining_} of {len(y)} rows remain")
print(f"the scaler is that of the remaining rows: {np.allclose(after, refitted, rtol=1e-12)}")
print(f"audit: {pipeline.audit().outcome}")

figure, axes = plt.subplots()
axes.bar(range(X.shape[1]), 100 * (after - before) / before)
axes.axhline(0, color="k", linewidth=0.8)
axes.set(
    xlabel="column", ylabel="change in percent", title="Means of the scaler, after 25 people left"
)
plt.show()
