"""Ask a service.

`unfit serve` answers over HTTP. A client files an erasure, waits until it is in force, and asks
for predictions before and after: once it is in force, no answer comes from a model that contains
the person.
"""

import json
import subprocess
import sys
import time
import urllib.request

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unfit.workspace import Workspace, init

rng = np.random.default_rng(0)
n = 1000
people = pd.DataFrame({"person": np.arange(n) % 400, "age": rng.normal(45, 12, n).round()})
people["label"] = np.where((people["age"] - 45) / 9 + rng.logistic(size=n) > 0, "yes", "no")
people.to_parquet("people.parquet")
init("people.parquet", "people", label="label", subject="person", random_state=0)
with Workspace("people") as ws:
    ws.train()

service = subprocess.Popen(
    [sys.executable, "-m", "unfit", "serve", "-w", "people", "--port", "0"],
    stdout=subprocess.PIPE,
    text=True,
)
address = service.stdout.readline().split()[-1].rstrip("/")
token = next(word for line in service.stdout for word in line.split() if word.startswith("unfit_"))


def ask(path: str, body: dict | None = None) -> dict:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address + path, data, headers)) as answer:
        return json.load(answer)


ages = list(range(20, 75, 5))


def probabilities() -> tuple[int, list[float]]:
    answer = ask("/v1/predictions", {"rows": [{"age": age} for age in ages]})
    return answer["version"], [p["probabilities"]["yes"] for p in answer["predictions"]]


before, old = probabilities()
oldest = people.loc[people["age"] > 60, "person"].unique().tolist()
erasure = ask("/v1/erasures", {"subjects": oldest})
while not ask(f"/v1/erasures/{erasure['id']}")["in_force"]:
    time.sleep(0.05)
after, new = probabilities()
service.terminate()
service.wait()
print(f"version {before} answered before, version {after} after {len(oldest)} people had left")

figure, axes = plt.subplots()
axes.plot(ages, old, "0.6", label=f"version {before}")
axes.plot(ages, new, "C2", label=f"version {after}, {len(oldest)} people over 60 forgotten")
axes.set(xlabel="age", ylabel="probability of yes")
axes.legend()
plt.show()
