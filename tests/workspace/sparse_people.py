"""Workspaces of people with words and sites: sparse and hashed columns beside the others."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from workspaces import Kept, make

import people
import servers

WORDS, SITES = 3000, 2048  # columns that the words and the sites stand for


def readers(n: int = 400, seed: int = 0) -> pa.Table:
    """People as ever, with a bag of words and the site they came from; both tell of the label."""
    table = people.people(n=n)
    rng = np.random.default_rng(seed)
    yes = np.array(table["label"].to_pylist()) == "yes"
    words = [
        sorted({*rng.integers(0, WORDS, 6).tolist(), *(yes_i * 100 + rng.integers(0, 80, 3))})
        for yes_i in yes.tolist()
    ]
    values = [[(int(j), float(np.float32(rng.random() + 0.5))) for j in row] for row in words]
    site = [f"site{i}" for i in rng.integers(0, 60, n) + 30 * yes]
    maps = pa.array(values, pa.map_(pa.int32(), pa.float32()))
    return table.append_column("words", maps).append_column("site", pa.array(site))


def kept_as(rows: str) -> Callable[[str], str]:
    """An edit of unfit.toml."""
    return lambda text: text.replace('rows = "auto"', f'rows = "{rows}"')


def make_sparse(
    at: Path,
    database: servers.Server | None = None,
    rows: str = "sparse",
    edit: Callable[[str], str] = lambda text: text,
    **options: object,
) -> Kept:
    """A workspace of readers; rows: how they are kept."""
    given = {"table": readers(), "hashed": {"site": SITES}} | options
    return make(at, database, edit=lambda text: edit(kept_as(rows)(text)), **given)
