"""Methods compared.

How far the weights are from a retraining's, after more and more rows have left at once: one
Newton step (FISHER), the deleted rows' influence (INFLUENCE), and a replay of the SGD run
(DELTAGRAD).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import unfit

X, y = load_digits(return_X_y=True)
X, y = unfit.MaxNormScaler().fit_transform(X[y < 2]), y[y < 2]
order = np.random.default_rng(0).permutation(len(y))
counts = [5, 10, 20, 40, 80, 160]
sgd = {"solver": "sgd", "epochs": 30, "batch_size": 64, "random_state": 0}
options = {"fisher": {}, "influence": {}, "deltagrad": sgd | {"period": 5}}

figure, axes = plt.subplots()
print("rows leave     " + "".join(f"{m:>9}" for m in counts))
for method, more in options.items():
    distances = []
    for m in counts:
        model = unfit.LogisticRegression(method, l2=1e-3, **more).fit(X, y).unlearn(order[:m])
        distances.append(model.audit(draws=1).weight_distance)
    print(f"{method:<15}" + "".join(f"{d:>9.1e}" for d in distances))
    axes.loglog(counts, distances, "o-", label=method)
axes.set(
    xlabel="rows that leave at once",
    ylabel="relative distance",
    title="From a retraining's weights",
)
axes.legend()
plt.show()
