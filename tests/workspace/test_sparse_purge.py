"""Erased means erased in sparse workspaces: no value, no column's number, no text is found."""

from pathlib import Path

import crashing
import numpy as np
import pyarrow as pa
import pytest
from sparse_people import SITES, make_sparse, readers
from test_crash import settled
from test_purge import found
from workspaces import Kept

from tiers import mostly_slow
from unfit.data.bags import bucket
from unfit.data.dataset import Dataset
from unfit.points import POINTS
from unfit.workspace.model import engine_of

SUBJECT, CITY, SITE = "Canary-Subject-7Q", "Canary City", "canary.example"
AGE, OLD, INCOME = 41.7251, 77.7251, 31.415926  # without OLD, the mean of ages is another
VALUES = {3141: 2.7182817, 3500: 1.6180339, 4001: 1.4142135}  # words that nobody else has
SUBJECTS = ["p0003", "p0017", "nobody"]


def with_canary(age: float = AGE) -> pa.Table:
    """Two rows of one person whose every value is a pattern of its own."""
    table = readers()
    planted = pa.table(
        {
            "person": [SUBJECT] * 2,
            "record": [f"canary-record-Zx{i}" for i in range(2)],
            "age": [age] * 2,
            "income": [INCOME] * 2,
            "member": [True] * 2,
            "plan": ["pro"] * 2,
            "city": [CITY] * 2,
            "label": ["yes"] * 2,
            "words": pa.array([list(VALUES.items())] * 2, table.schema.field("words").type),
            "site": [SITE] * 2,
        },
        schema=table.schema,
    )
    return pa.concat_tables([table.slice(0, 200), planted, table.slice(200)])


def patterns(dataset: Dataset) -> dict[str, bytes]:
    """What to look for, taken before anything is forgotten: raw and encoded pairs included."""
    rows = dataset.subject_rows(SUBJECT)
    assert rows is not None
    assert len(rows) == 2
    raw, X = dataset.raw_rows(rows[:1]), dataset.rows()[rows[:1]]
    assert raw.bags is not None
    assert raw.bags.indices.tolist() == [*VALUES, 4096 + bucket(SITE, SITES)]
    texts = {"subject": SUBJECT, "record": "canary-record-Zx", "city": CITY, "site": SITE}
    numbers = {f"text {value}": str(value) for value in (*VALUES.values(), AGE, OLD, INCOME)}
    columns = {
        "raw columns": raw.bags.indices[:3].tobytes(),
        "raw columns, 8 bytes": raw.bags.indices[:3].astype("<i8").tobytes(),
        "encoded columns": X.indices[-4:].tobytes(),
        "raw values": raw.bags.data[:3].tobytes(),
        "encoded values": X.data[-4:].tobytes(),
        "raw numbers": raw.values[0, :2].tobytes(),
    }
    for j, value in VALUES.items():
        columns[f"value {j}"] = np.float32(value).tobytes()
        columns[f"pair {j}"] = f"{j}:{value}".encode()
    return {name: text.encode() for name, text in (texts | numbers).items()} | columns


MEANINGFUL = {"subject", "record", "city", "raw columns", "encoded columns", "raw values"}


@pytest.mark.parametrize(
    "way",
    mostly_slow(
        ["fisher", "influence", "retrain", "certified", "constants due"],
        ["fisher"],
    ),
)
def test_canaries_of_sparse_rows_are_gone(way: str, tmp_path: Path) -> None:
    fitted = ('norm = "none"', 'norm = "fitted"')
    table = with_canary(OLD if way == "constants due" else AGE)
    options = {"table": table, "test_share": 0.1, "edit": lambda text: text.replace(*fitted)}
    if way == "certified":
        options |= {"random_state": None, "epsilon": 1.0}
    elif way != "constants due":
        options["method"] = way
    kept = make_sparse(tmp_path / "w", **options)
    with kept.open() as ws:
        with ws.session() as session:
            wanted = patterns(session.dataset())
        before = found(kept.folder, wanted)
        assert set(before) >= MEANINGFUL | {f"value {j}" for j in VALUES}
        assert "site" not in before  # texts that are hashed are nowhere from the start
        made = ws.forget(subjects=[SUBJECT])
        assert made.rows == 2
        assert made.purged
        assert ("'age' changed" in made.reason) == (way == "constants due")
        assert found(kept.folder, wanted) == {}  # also while the workspace is open
        ws.audit()
        ws.prepare()
        weights = ws.active_model().weights[0]
        start = len(weights) - 1 - SITES - 4096
        trace = np.abs(weights[[start + j for j in VALUES]]).max()
        assert trace < 6e-3 if way == "certified" else trace == 0  # noise, or nothing
    assert found(kept.folder, wanted) == {}


def test_rows_in_memory_are_zeroed_with_those_on_the_disk(tmp_path: Path) -> None:
    kept = make_sparse(tmp_path / "w", table=with_canary(), test_share=0.1)
    with kept.open() as ws, ws.session() as session:
        dataset = session.dataset()
        rows = dataset.subject_rows(SUBJECT)
        others = np.setdiff1d(np.arange(dataset.n), rows)
        before = dataset.rows()[others].copy()
        inside = dataset.rows().entries(rows)
        for _ in range(2):  # can be repeated
            dataset.purge_rows(rows)
        again = Dataset(dataset.folder)
        for each in (dataset, again):
            X = each.rows()
            assert not X.indices[inside].any()
            assert not X.data[inside].any()
            np.testing.assert_array_equal(X[others].indices, before.indices)
            np.testing.assert_array_equal(X[others].data, before.data)
            assert each.bags is not None
            assert not each.bags[rows].indices.any()
            assert not each.bags[rows].data.any()
        assert not again.live[rows].any()


def test_what_the_engine_has_copied_is_zeroed_too(tmp_path: Path) -> None:
    kept = make_sparse(tmp_path / "w", table=with_canary(), test_share=0.1)
    with kept.open() as ws:
        ws.forget(subjects=["p0003"])  # the model is in memory, with its transpose
        with ws.session() as session:
            columns = session.open_model().data._matrix.transpose
            value = np.float32(VALUES[3500])
            assert (columns.data == value).any()
            before = session.open_model().data.gradient_sum(session.open_model().state.weights)
        ws.forget(subjects=[SUBJECT])
        with ws.session() as session:
            model = session.open_model()
            assert model.data._matrix.transpose is columns
            assert not (columns.data == value).any()
            gone = np.flatnonzero(~model.live[: model.dataset.n_train])
            assert not np.isin(columns.rows[columns.data != 0], gone).any()
            fresh = engine_of(model.dataset, model.card, model.class_of_label, model.live)
            W = model.state.weights
            np.testing.assert_allclose(
                model.data.gradient_sum(W), fresh.gradient_sum(W), atol=1e-9 * np.abs(before).max()
            )


# Processes that are killed


@pytest.fixture(scope="module")
def sparse_workspace(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return make_sparse(tmp_path_factory.mktemp("sparse") / "w")


QUICK = ["purge.rows-erased"]


@pytest.mark.parametrize(
    "point",
    mostly_slow([p for p in POINTS if p.startswith(("forget.", "purge.", "retrain."))], QUICK),
)
def test_a_killed_process_leaves_sparse_rows_in_the_old_state_or_the_new(
    point: str, sparse_workspace: Kept, tmp_path: Path
) -> None:
    options = {"subjects": SUBJECTS, "key": "k"}
    ours, clean = (sparse_workspace.copy(tmp_path / name) for name in ("ours", "clean"))
    if point.startswith("retrain."):
        always = ('retrain_when = ["disparity"]', 'retrain_when = ["always"]')
        for kept in (ours, clean):
            toml = kept.folder / "unfit.toml"
            toml.write_text(toml.read_text().replace(*always))
    verb = "retrain" if point == "retrain.committed" else "forget"
    options = options if verb == "forget" else {}
    states = [settled(clean.folder)]
    if verb == "forget":
        with clean.open() as ws:
            ws.submit(**options)
        states.append(settled(clean.folder))
    crashing.act(clean.folder, verb, options)
    states.append(settled(clean.folder))
    if crashing.run(ours.folder, verb, options, die_at=point) != -9:
        pytest.skip(f"{point} is not on the way of an uncertified erasure")
    assert settled(ours.folder) in states
    if verb == "forget":
        crashing.act(ours.folder, verb, options)
        assert settled(ours.folder) == states[-1]
        _check_zeroed(ours)


def _check_zeroed(kept: Kept) -> None:
    with kept.open() as ws, ws.session() as session:
        dataset = session.dataset()
        gone = np.flatnonzero(~dataset.live)
        for part in (dataset.rows(), dataset.bags):
            assert not part[gone].indices.any()
            assert not part[gone].data.any()
        model = session.open_model()
        assert model.state.n == int(dataset.live[: dataset.n_train].sum())
