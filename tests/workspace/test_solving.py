"""An attacker who solves for an erased person's values, with what is left after the erasure.

Exports from before and after, and every file of a purged workspace, may be at hand. The systems
below give each number of the erased to the cent where constants are what was fitted with them.
"""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from workspaces import Kept, make

from unfit.data.dataset import Dataset
from unfit.workspace import Workspace

SALARY, AGE, HOURS = 123457.0, 61.0, 12.5
NUMBERS = ("salary", "age", "hours")


def staff(n: int = 400, salaries: tuple[float, ...] = (SALARY,), seed: int = 0) -> pa.Table:
    """Employees e..., and one P... for each of some salaries."""
    rng = np.random.default_rng(seed)
    k = len(salaries)
    own = {"salary": salaries, "age": [AGE + i for i in range(k)], "hours": [HOURS] * k}
    drawn = {
        "salary": rng.normal(52_300, 21_000, n).round(2),
        "age": rng.normal(41.7, 11, n).round(),
        "hours": rng.normal(36.4, 7, n).round(1),
    }
    remote = np.r_[rng.random(n) < 0.31, np.ones(k, bool)]
    columns = {name: np.r_[drawn[name], own[name]] for name in NUMBERS}
    score = (columns["salary"] - 52_300) / 21_000 + rng.logistic(size=n + k)
    return pa.table(
        {
            "person": [f"e{i}" for i in range(n)] + [f"P{8 + i}" for i in range(k)],
            **columns,
            "remote": remote,
            "label": np.where(score > 0, "left", "stayed").tolist(),
        }
    )


def workspace_of(at: Path, table: pa.Table, **options: object) -> Kept:
    """With everybody to erase among the training rows, whatever the draw."""
    for seed in range(20):
        kept = make(
            at / str(seed),
            None,
            table=table,
            row_id=None,
            trained=False,
            edit=lambda text, seed=seed: text.replace("seed = 0", f"seed = {seed}").replace(
                "min_rows = 1 ", "min_rows = 10"
            ),
            **options,
        )
        with kept.open() as ws:
            ws.train()
            with ws.session() as session:
                data = session.dataset()
                targets = [data.subject_rows(who) for who in who_leaves(table)]
                if all(rows is not None and rows[0] < data.n_train for rows in targets):
                    return kept
    raise AssertionError


def who_leaves(table: pa.Table) -> list[str]:
    return [who for who in table["person"].to_pylist() if who.startswith("P")]


def exported(ws: Workspace) -> dict:
    _, content = ws.export()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return constants(json.loads(file.read("card.json")))


def constants(card: dict) -> dict:
    found = {one["column"]["name"]: one for one in card["encoding"]["columns"]}
    return found | {"norm": card["encoding"]["norm"]}


def left_behind(folder: Path) -> tuple[dict, Dataset]:
    """The card and the rows that a purged workspace's files hold."""
    cards = [json.loads(p.read_bytes()) for p in (folder / "artifacts").glob("*.json")]
    (generation,) = (folder / "data").iterdir()
    (card,) = cards
    return constants(card), Dataset(generation)


def live_values(data: Dataset, name: str) -> np.ndarray:
    order = [column for column, kind in data.columns if kind != "category"]
    train = data["values"][: data.n_train, order.index(name)]
    return train[data.live[: data.n_train]].astype(np.float64)


def close(found: float, value: float, scale: float) -> bool:
    """Whether a value was found more closely than a card rounds it."""
    return abs(found - value) < scale / 8


def test_exports_before_and_after_do_not_give_a_salary_away(tmp_path: Path) -> None:
    """shift x n before, less shift x (n - 1) after."""
    kept = workspace_of(tmp_path, staff())
    with kept.open() as ws:
        before, n = exported(ws), ws.status().version.rows
        ws.forget(subjects=["P8"])
        ws.retrain()
        after, m = exported(ws), ws.status().version.rows
    assert m == n - 1
    true = dict(zip(NUMBERS, (SALARY, AGE, HOURS), strict=True)) | {"remote": 1.0}
    solved = {name: before[name]["shift"] * n - after[name]["shift"] * m for name in NUMBERS}
    solved["remote"] = before["remote"]["fill"] * n - after["remote"]["fill"] * m
    found = [name for name in solved if close(solved[name], true[name], after[name]["scale"])]
    assert found == []


def test_the_files_of_a_purged_workspace_do_not_give_a_person_away(tmp_path: Path) -> None:
    """shift x n, less the sum of the values that are there."""
    kept = workspace_of(tmp_path, staff())
    with kept.open() as ws:
        n = ws.status().version.rows
        assert ws.forget(subjects=["P8"]).purged
    card, data = left_behind(kept.folder)
    true = dict(zip(NUMBERS, (SALARY, AGE, HOURS), strict=True)) | {"remote": 1.0}
    found = []
    for name, value in true.items():
        mean = card[name]["fill" if name == "remote" else "shift"]
        if close(mean * n - live_values(data, name).sum(), value, card[name]["scale"]):
            found.append(name)
    assert found == []


def test_two_people_are_not_told_by_the_mean_and_the_deviation(tmp_path: Path) -> None:
    """Sums of values and of squares are two equations for two people."""
    salaries = (91_234.5, 28_765.25)
    kept = workspace_of(tmp_path, staff(salaries=salaries))
    with kept.open() as ws:
        n = ws.status().version.rows
        ws.forget(subjects=["P8", "P9"])
    card, data = left_behind(kept.folder)
    mean, sd = card["salary"]["shift"], card["salary"]["scale"]
    live = live_values(data, "salary")
    both = mean * n - live.sum()
    squares = n * (sd**2 + mean**2) - (live**2).sum()
    inside = 2 * squares - both**2
    solved = sorted((both + s * np.sqrt(max(inside, 0.0))) / 2 for s in (-1, 1))
    assert not any(close(a, b, sd) for a, b in zip(solved, sorted(salaries), strict=True))


def test_a_fitted_norm_does_not_give_the_longest_row_away(tmp_path: Path) -> None:
    """The length of a row is one equation for its largest number, the others being known."""
    kept = workspace_of(tmp_path, staff(salaries=(240_000.0,)), norm="fitted")
    with kept.open() as ws:
        before = exported(ws)
        ws.forget(subjects=["P8"])
        after = exported(ws)
    _, data = left_behind(kept.folder)
    for card in (before, after):
        scaled = {
            name: (value - card[name]["shift"]) / card[name]["scale"]
            for name, value in (("age", AGE), ("hours", HOURS))
        }
        known = sum(x**2 for x in scaled.values()) + 1.0
        length = np.sqrt(max(card["norm"] ** 2 - known, 0.0))
        solved = card["salary"]["shift"] + card["salary"]["scale"] * length
        assert not close(solved, 240_000.0, card["salary"]["scale"])
    assert before["norm"] == after["norm"]  # though the longest row by far has left
    assert not np.isnan(data["values"]).any()


def test_the_choices_that_are_written_down_count_nobody(tmp_path: Path) -> None:
    """Comments of unfit.toml outlive people: a missing value less tells who lacked it."""
    table, written = staff(), []
    for gaps in (29, 28):
        hours = [None if i < gaps else v for i, v in enumerate(table["hours"].to_pylist())]
        told = table.set_column(3, "hours", pa.array(hours))
        kept = make(tmp_path / str(gaps), None, table=told, row_id=None, trained=False)
        lines = (kept.folder / "unfit.toml").read_text().splitlines()
        written.append([line for line in lines if line.endswith(" missing")])
    assert written[0] == written[1]
    assert any("about 30 missing" in line for line in written[0])


@pytest.mark.parametrize("norm", ["none", "fitted"])
def test_what_is_left_is_the_same_whoever_has_left(tmp_path: Path, norm: str) -> None:
    """Two pasts, one present: the same constants, in the files and in the export."""
    left = []
    for name, salary in (("a", SALARY), ("b", 87_001.0), ("c", 9_000_000.0)):
        kept = workspace_of(tmp_path / name, staff(salaries=(salary,)), norm=norm)
        with kept.open() as ws:
            ws.forget(subjects=["P8"])
            left.append((exported(ws), left_behind(kept.folder)[0]))
    for export, card in left:
        assert export == card == left[0][0]
