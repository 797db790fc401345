"""A stream of requests.

Forty requests, one after another. `prepare`, between two requests, computes ahead what the next one
can use; it changes nothing in the model, and a stream does without it: most answers come from sums
that are known already. The weights stay with those of a retraining, however long the stream.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import unfit

rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 30))
y = X @ rng.normal(size=30) + rng.logistic(size=20_000) > 0
stream = rng.permutation(len(y))[:400].reshape(40, 10)


def served(prepared: bool) -> tuple[unfit.LogisticRegression, list[float]]:
    """The model after the stream, and how long each answer took."""
    model, seconds = unfit.LogisticRegression().fit(X, y), []
    for rows in stream:
        start = time.perf_counter()
        model.unlearn(rows)
        seconds.append(time.perf_counter() - start)
        if prepared:
            model.prepare()
    return model, seconds


with_prepare, without_prepare = served(True), served(False)
prepared, alone = (1000 * np.median(seconds[1:]) for _, seconds in (with_prepare, without_prepare))
print(f"{with_prepare[0].n_remaining_} rows remain")
print(f"an answer takes {prepared:.2f} ms with prepare in between, {alone:.2f} ms without")
print(f"audit: {with_prepare[0].audit().outcome}")

figure, axes = plt.subplots()
axes.semilogy(1000 * np.array(without_prepare[1]), ".-", label="unlearn alone")
axes.semilogy(1000 * np.array(with_prepare[1]), ".-", label="with prepare in between")
axes.set(xlabel="request of 10 rows", ylabel="milliseconds", title="How long an answer takes")
axes.legend()
plt.show()
