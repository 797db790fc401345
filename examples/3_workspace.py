"""A workspace from a data frame.

A workspace keeps data, model and records in a folder. It is made from a table, here a pandas data
frame; people are forgotten by their id, and every version says what it cost.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unfit.workspace import Workspace, init

rng = np.random.default_rng(0)
n = 4000
customers = pd.DataFrame(
    {
        "customer": rng.integers(1000, 2500, n),
        "age": rng.normal(45, 12, n).round(),
        "plan": rng.choice(["basic", "plus", "pro"], n),
        "calls": rng.poisson(2, n),
    }
)
score = 0.5 * customers["calls"] - (customers["plan"] == "pro") + rng.logistic(size=n)
customers["churned"] = np.where(score > 1, "yes", "no")
customers.to_parquet("customers.parquet")

init("customers.parquet", "customers", label="churned", subject="customer", random_state=0)
with Workspace("customers") as ws:
    trained = ws.train()
    print(f"version {trained.version}: {trained.rows} rows, accuracy {trained.accuracy:.3f}")
    for start in range(1000, 1600, 40):
        ws.forget(subjects=range(start, start + 40))
    versions = ws.status().versions
    print(f"version {versions[-1].number}: {versions[-1].rows} rows remain")
    print(ws.forget(subjects=[1000]).reason)

figure, axes = plt.subplots()
colour = {"trained": "C0", "updated": "C2", "retrained": "C3"}
for kind in colour:
    some = [v for v in versions if v.kind == kind]
    axes.bar([v.number for v in some], [v.rows for v in some], color=colour[kind], label=kind)
axes.set(xlabel="version", ylabel="training rows", title="Forty people at a time")
axes.legend(loc="lower right")
plt.show()
