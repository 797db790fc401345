"""When to retrain.

The policy of a workspace decides after every erasure whether the updated model is good enough.
Two workspaces of the same people: one retrains after a count of rows, one by the distance of its
weights to a retraining's.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unfit.workspace import Workspace, init

rng = np.random.default_rng(1)
n = 2000
people = pd.DataFrame(
    {"person": np.arange(n), "age": rng.normal(45, 12, n), "calls": rng.poisson(2, n)}
)
people["label"] = np.where(0.6 * people["calls"] + rng.logistic(size=n) > 1.2, "yes", "no")
people.to_parquet("people.parquet")
waves = [range(start, start + 100) for start in range(0, 1000, 100)]

decisions = {}
for rule in ("count", "distance"):
    init("people.parquet", rule, label="label", subject="person", random_state=0)
    toml = Path(rule, "unfit.toml")
    text = toml.read_text().replace('["distance", "log_loss", "disparity"]', f'["{rule}"]')
    toml.write_text(text.replace("count = 1000", "count = 300 "))
    with Workspace(rule) as ws:
        ws.train()
        decisions[rule] = [ws.forget(subjects=wave) for wave in waves]
    retrained = [d.version for d in decisions[rule] if d.action == "retrain"]
    print(f"{rule}: retrained at versions {retrained or 'none'}; the last decision:")
    print(f"  {decisions[rule][-1].reason}")

figure, axes = plt.subplots(figsize=(7, 1.8))
for row, made in enumerate(decisions.values()):
    colours = ["C3" if d.action == "retrain" else "C2" for d in made]
    axes.scatter(range(1, len(made) + 1), [row] * len(made), c=colours, s=90)
axes.set(yticks=[0, 1], yticklabels=list(decisions), ylim=(-0.6, 1.6), xlabel="wave of 100 people")
axes.set_title("green: updated, red: retrained")
plt.show()
