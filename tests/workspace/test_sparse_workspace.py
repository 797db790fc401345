"""Sparse rows in a workspace: the same model as with dense rows, by every verb."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import dump_svmlight_file
from sparse_people import SITES, WORDS, make_sparse, readers
from typer.testing import CliRunner
from workspaces import make

import people
from tiers import mostly_slow
from unfit.cli import app
from unfit.data.bags import bucket
from unfit.data.encoding import matrix_of
from unfit.data.objects import ObjectEncoder
from unfit.data.sources import Location, open_source
from unfit.errors import BadInput, CannotTrain, Unavailable
from unfit.workspace import Workspace, init

NORM = {norm: ('norm = "none"', f'norm = "{norm}"') for norm in ("none", "fitted")}


def precise(text: str) -> str:
    """Both kinds of rows are trained to their tolerance, so let it be a small one."""
    assert "tol = 1e-08" in text
    return text.replace("tol = 1e-08", "tol = 1e-13")


def weights(ws: Workspace) -> np.ndarray:
    return ws.active_model().weights


def assert_same(sparse: Workspace, dense: Workspace) -> None:
    """The weights are, but for columns in which nobody has a value: there, those of sparse rows are
    zero, and those of dense ones what the steps have left (of INFLUENCE's, that is to be seen)."""
    one, other = weights(sparse), weights(dense)
    with sparse.session() as session:
        dataset = session.dataset()
        used = np.ones(one.shape[1], np.bool_)
        used[:-1] = False
        used[dataset.rows()[np.flatnonzero(dataset.live[: dataset.n_train])].indices] = True
    assert np.linalg.norm((one - other)[:, used]) <= 1e-8 * np.linalg.norm(other)
    assert not one[:, ~used].any()
    assert np.linalg.norm(other[:, ~used]) <= 1e-5 * np.linalg.norm(other)


WAYS = [
    f"{method}, {norm}" for method in ("fisher", "influence", "newton", "retrain") for norm in NORM
]


@pytest.mark.parametrize("way", mostly_slow(WAYS, ["fisher, fitted"]))
def test_a_sparse_workspace_has_the_weights_of_a_dense_one(way: str, tmp_path: Path) -> None:
    method, norm = way.split(", ")
    options = {"method": method, "edit": lambda text: precise(text.replace(*NORM[norm]))}
    sparse = make_sparse(tmp_path / "s", rows="sparse", **options)
    dense = make_sparse(tmp_path / "d", rows="dense", **options)
    with sparse.open() as one, dense.open() as other:
        assert one.status().kept is not None
        assert one.status().kept.sparse
        assert not other.status().kept.sparse
        assert_same(one, other)
        asked = people.write(readers(seed=1).slice(0, 50), tmp_path / "new.parquet")
        mine, theirs = one.predict(asked), other.predict(asked)
        assert mine.accuracy == theirs.accuracy
        for column in ("p_no", "p_yes"):
            np.testing.assert_allclose(mine.table[column], theirs.table[column], atol=1e-6)
        for who in (["p0003"], ["p0017", "p0042", "p0100"]):
            made = [ws.forget(subjects=who) for ws in (one, other)]
            assert made[0].action == made[1].action == "update"
            assert_same(one, other)
        assert one.retrain().columns == other.retrain().columns > WORDS + SITES
        assert_same(one, other)
        mine, theirs = (ws.audit(random_state=0) for ws in (one, other))
        assert mine.verdict == theirs.verdict
        assert mine.constants == ()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fisher", "influence", "retrain"])
def test_noise_of_sparse_rows_is_drawn_and_the_centre_is_the_same(
    method: str, tmp_path: Path
) -> None:
    options = {"method": method, "sigma": 0.01, "edit": precise}
    sparse = make_sparse(tmp_path / "s", rows="sparse", **options)
    dense = make_sparse(tmp_path / "d", rows="dense", **options)
    with sparse.open() as one, dense.open() as other:
        for ws in (one, other):
            ws.forget(subjects=["p0003"])
        centres = []
        for ws in (one, other):
            with ws.session() as session:
                state = session.open_model().state
                centres.append(state.centre)
                if method != "influence":  # whose noise is in the objective
                    assert not np.array_equal(state.centre, state.weights)
        np.testing.assert_allclose(*centres, atol=1e-6 * np.abs(centres[1]).max())


def test_what_is_kept_of_sparse_rows(tmp_path: Path) -> None:
    """A rule says whether rows are sparse, and what is on the disk are three arrays."""
    with make_sparse(tmp_path / "w", rows="auto").open() as ws, ws.session() as session:
        dataset = session.dataset()
        assert dataset.sparse
        names = {path.name for path in dataset.folder.iterdir()}
        assert {"X_indptr.bin", "X_indices.bin", "X_data.bin", "bag_indices.bin"} <= names
        assert "X.bin" not in names
        assert str(ws.status().kept) == "sparse, 6,158 columns, about 0.2 % of values not zero"
        said = ws.status().as_dict()
        assert (said["kept_as"], said["columns"]) == ("sparse", dataset.width)
        inside = len(dataset.rows().indices) / (dataset.n * dataset.width)
        assert f"{100 * inside:.1g}" == "0.2"


def test_few_columns_are_dense_and_their_files_are_as_ever(tmp_path: Path) -> None:
    with make(tmp_path / "w", None).open() as ws, ws.session() as session:
        dataset = session.dataset()
        manifest = json.loads((dataset.folder / "manifest.json").read_text())["content"]
        assert manifest["format"] == 1
        assert sorted(manifest) == ["arrays", "columns", "format", "rows", "train"]
        assert "X" in manifest["arrays"]
        assert not any("_in" in name or "bag" in name for name in manifest["arrays"])
        card = session.open_model().card.to_json()
        assert card["format"] == 2
        assert "sparse" not in card["encoding"]
        assert not any("width" in c["column"] for c in card["encoding"]["columns"])
        assert str(ws.status().kept) == "dense, 14 columns"


def test_methods_that_walk_through_rows_keep_them_dense(tmp_path: Path) -> None:
    change = lambda text: text.replace("epochs = 200", "epochs = 1")  # noqa: E731
    kept = make_sparse(tmp_path / "w", rows="auto", method="deltagrad", edit=change)
    with kept.open() as ws:
        assert not ws.status().kept.sparse
    kept = make_sparse(tmp_path / "x", method="deltagrad", trained=False, edit=change)
    with kept.open() as ws, pytest.raises(Unavailable, match="sparse"):
        ws.train()


def test_a_category_with_many_values_becomes_sparse_columns(tmp_path: Path) -> None:
    table = people.people(n=4000)
    shop = pa.array([f"shop{i % 1500}" for i in range(4000)])
    table = table.append_column("shop", shop)
    kept = make(tmp_path / "w", None, table=table, max_categories=2000, copied=False)
    with kept.open() as ws, ws.session() as session:
        assert session.dataset().sparse
        assert session.dataset().width > 1400
        encoding = session.open_model().card.encoding
        X = session.dataset().rows()[np.arange(50)]
        dense = replace(encoding, sparse=False)
        raw = session.dataset().raw_rows(np.arange(50))
        slots = dense.slots(session.dataset().vocabularies)
        np.testing.assert_array_equal(X.dense(), dense.encode(raw, slots))


def test_objects_are_encoded_as_rows_of_a_file_are(tmp_path: Path) -> None:
    table = readers(seed=2).slice(0, 40)
    for rows in ("sparse", "dense"):
        with make_sparse(tmp_path / rows, rows=rows).open() as ws:
            model = ws.active_model()
            objects = [row | {"words": dict(row["words"])} for row in table.to_pylist()]
            X, _ = ObjectEncoder(model.card.encoding).encode(objects)
            found = ws.predict(table).table["p_yes"].to_numpy()
            said = model.probabilities(matrix_of(X))[:, model.card.classes.index("yes")]
            np.testing.assert_allclose(said, found, atol=1e-7)
            texts = [
                row | {"words": " ".join(f"{j}:{v!r}" for j, v in row["words"].items())}
                for row in objects
            ]
            again, _ = ObjectEncoder(model.card.encoding).encode(texts)
            np.testing.assert_array_equal(matrix_of(X)[0:5].sum(), matrix_of(again)[0:5].sum())


def test_an_export_says_how_pairs_become_columns(tmp_path: Path) -> None:
    kept = make_sparse(tmp_path / "w")
    with kept.open() as ws:
        model = ws.active_model()
        with zipfile.ZipFile(io.BytesIO(ws.export()[1])) as file:
            card = json.loads(file.read("card.json"))
            how = file.read("README.txt").decode()
    assert "BLAKE2b" in how
    assert card["encoding"]["sparse"] is True
    assert card["constants"]["columns"]["site"]["columns"].startswith("BLAKE2b")
    assert card["constants"]["columns"]["words"]["shift"] == "none"
    row = readers(seed=3).slice(0, 1).to_pylist()[0]
    x = np.zeros(model.card.encoding.width + 1)
    x[-1] = 1  # by hand, as the file says
    columns = {c.column.name: c for c in model.card.encoding.columns}
    for j, name in enumerate(("age", "income")):
        c = columns[name]
        value = c.fill if row[name] is None else np.float32(row[name])
        x[j] = (value - c.shift) / c.scale
    x[2] = row["member"]
    at = 3
    for name in ("plan", "city"):
        categories = columns[name].categories
        x[at + categories.index(row[name] or "")] = 1
        at += len(categories)
    for j, value in row["words"]:
        x[at + j] = value
    x[at + columns["words"].column.width + bucket(row["site"], SITES)] = 1
    with kept.open() as ws:
        found = ws.predict(readers(seed=3).slice(0, 1)).table["p_yes"].to_numpy()
    score = float(model.weights[0] @ x)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-score)), rtol=1e-5)


def test_deleted_rows_are_kept_for_audits_as_they_came(tmp_path: Path) -> None:
    window = ('audit_window = "none"', 'audit_window = "30d"')
    for rows in ("sparse", "dense"):
        kept = make_sparse(tmp_path / rows, rows=rows, edit=lambda text: text.replace(*window))
        with kept.open() as ws:
            ws.forget(subjects=["p0003", "p0017", "p0042"])
            report = ws.audit(random_state=0)
            assert report.deleted_from == "the audit window"
            assert report.n_available > 3
            assert report.audit.acc_dis is not None
            gone = pa.Table.from_batches(
                open_source(Location(kept.folder / "retained" / "2.parquet")).blocks()
            )
            who = np.isin(readers()["person"].to_pylist(), ["p0003", "p0017", "p0042"])
            came = {tuple(row) for row in readers()["words"].filter(pa.array(who)).to_pylist()}
            assert {tuple(row) for row in gone["words"].to_pylist()} <= came


def test_the_width_of_a_column_cannot_change_after_training(tmp_path: Path) -> None:
    kept = make_sparse(tmp_path / "w")
    toml = kept.folder / "unfit.toml"
    toml.write_text(toml.read_text().replace(f"width = {SITES}", f"width = {2 * SITES}"))
    with kept.open() as ws, pytest.raises(CannotTrain, match="columns differ"):
        ws.retrain()


# LIBSVM


def libsvm_file(path: Path, zero_based: bool = False, n: int = 300) -> tuple[np.ndarray, Path]:
    rng = np.random.default_rng(0)
    X = np.zeros((n, 2000))
    for row in X:
        row[rng.integers(0, 2000, 20)] = rng.random(20).round(3)
    y = (X @ rng.standard_normal(2000) > 0).astype(int)
    dump_svmlight_file(X, y, str(path), zero_based=zero_based)
    return X, path


@pytest.mark.parametrize("zero_based", [False, True])
def test_wide_libsvm_files_stay_sparse_under_the_indices_they_have(
    zero_based: bool, tmp_path: Path
) -> None:
    X, path = libsvm_file(tmp_path / "t.svm", zero_based)
    init(path, tmp_path / "ws", random_state=0, options={"rows": "sparse"})
    with Workspace(tmp_path / "ws") as ws:
        assert ws.config.columns["features"] == {
            "kind": "sparse",
            "width": 2048,  # the next power of two: the largest index may be one person's
            "scale": "none",
            "unseen": "ignore",
        }
        ws.train()
        with ws.session() as session:
            dataset = session.dataset()
            assert dataset.sparse
            rows = dataset.rows().dense()[:, (0 if zero_based else 1) :][:, :2000]
            np.testing.assert_allclose(rows, X[dataset["numbers"]], atol=1e-6)
        assert ws.predict(path).accuracy > 0.9
        assert ws.forget(rows=["3"]).rows == 1


def test_a_new_workspace_reads_a_wide_libsvm_file_as_sparse_rows(tmp_path: Path) -> None:
    _, path = libsvm_file(tmp_path / "t.svm")
    init(path, tmp_path / "ws")
    assert 'options = {"rows" = "sparse"}' in (tmp_path / "ws" / "unfit.toml").read_text()
    narrow = tmp_path / "n.svm"
    dump_svmlight_file(np.eye(6), [0, 1] * 3, str(narrow), zero_based=False)
    init(narrow, tmp_path / "narrow")
    with Workspace(tmp_path / "narrow") as ws:
        assert list(ws.config.columns) == [f"f{i}" for i in range(1, 7)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 1:0.5 2:x\n", "line 1"),
        ("1 1:0.5\n0 nonsense\n", "line 2"),
        ("hello world\n", "no index:value pairs"),
        ("1 3:1 2:1\n", "rising indices"),
    ],
)
def test_bad_lines_of_sparse_libsvm_files_are_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(BadInput, match=said):
        for _ in open_source(Location(tmp_path / "t.svm", options={"rows": "sparse"})).blocks():
            pass
    with pytest.raises(BadInput, match="'dense' or 'sparse'"):
        open_source(Location(tmp_path / "t.svm", options={"rows": "thin"}))


def test_a_libsvm_file_wider_than_the_model_is_answered_or_refused(tmp_path: Path) -> None:
    _, path = libsvm_file(tmp_path / "t.svm")
    wide = tmp_path / "wide.svm"
    wide.write_text("1 5:1 70000:1\n")
    init(path, tmp_path / "ws", random_state=0)
    toml = tmp_path / "ws" / "unfit.toml"
    with Workspace(tmp_path / "ws") as ws:
        ws.train()
        assert ws.predict(wide).rows == 1
    toml.write_text(toml.read_text().replace("width = 2048", "width = 1024"))
    init(path, tmp_path / "other", random_state=0)
    other = tmp_path / "other" / "unfit.toml"
    text = other.read_text().replace("width = 2048", "width = 1024")
    other.write_text(text.replace('unseen = "ignore"', 'unseen = "error"'))
    with Workspace(tmp_path / "other") as ws:
        with pytest.raises(BadInput, match=r"t.svm: row \d+, column 'features': number \d+ is not"):
            ws.train()
        assert ws.store.versions.active() is None


def test_the_command_line_says_of_a_column_what_it_is(tmp_path: Path) -> None:
    table = readers(n=60)
    pairs = [" ".join(f"{j}:{v!r}" for j, v in row) for row in table["words"].to_pylist()]
    table = table.drop_columns("words").append_column("words", pa.array(pairs))
    source = people.write(table, tmp_path / "people.csv")
    given = ["init", str(source), "-w", str(tmp_path / "ws"), "--label", "label"]
    given += ["--subject", "person", "--row-id", "record"]
    kinds = ["--kind", "words=sparse", "--kind", "site=hash:512"]
    said = CliRunner().invoke(app, [*given, *kinds])
    assert said.exit_code == 0, said.output
    assert "1 sparse, 1 hash" in said.output
    with Workspace(tmp_path / "ws") as ws:
        assert ws.config.columns["words"]["width"] == 4096
        assert ws.config.columns["site"] == {"kind": "hash", "width": 512}
        ws.train()
        assert ws.status().kept.sparse
    for wrong in ("words", "words=thin", "site=hash", "site=hash:many", "words=sparse:3"):
        said = CliRunner().invoke(app, [*given[:3], str(tmp_path / "x"), "--kind", wrong])
        assert said.exit_code != 0
        assert f"--kind {wrong}: must be NAME=sparse" in said.output
    said = CliRunner().invoke(
        app, [*given[:3], str(tmp_path / "x"), *given[4:], "--kind", "city=sparse"]
    )
    assert "row 0, column 'city'" in said.output
    assert "is not a pair such as 17:1.5" in said.output
    assert not (tmp_path / "x").exists()
