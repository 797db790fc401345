"""The real files, where UNFIT_DATA names a folder that has them: shapes, shares, routes."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from routes import routes
from unfit.data import catalog
from unfit.data.catalog import scaling

REAL = os.environ.get("UNFIT_DATA")
pytestmark = [
    pytest.mark.skipif(not REAL, reason="UNFIT_DATA names no folder with the real files"),
    pytest.mark.usefixtures("data"),
]


@pytest.mark.parametrize("name", ["adult", "diabetes130", "movielens"])
def test_real_tables_are_the_same_from_public_files(name: str, data: Path) -> None:
    """The public file, written from the Parquet one, gives the same rows."""
    entry = catalog.find(name)
    real = Path(REAL or "")

    def link(folder: Path) -> None:
        for file in entry.file_sets[0].files:
            (folder / file.name).symlink_to(real / file.name)

    def text(table: pa.Table, header: bool = True) -> bytes:
        plain = pa.table(
            {n: c.cast(pa.string()) for n, c in zip(table.column_names, table.columns, strict=True)}
        )
        stream = io.BytesIO()
        csv.write_csv(
            plain, stream, csv.WriteOptions(include_header=header, quoting_style="needed")
        )
        return stream.getvalue()

    def public(folder: Path) -> None:
        tables = [parquet.read_table(real / file.name) for file in entry.file_sets[0].files]
        if name == "adult":
            for part, file in (("train", "adult.data"), ("test", "adult.test")):
                rows = tables[0].filter(
                    pa.compute.equal(tables[0]["split"].cast(pa.string()), part)
                )
                (folder / file).write_bytes(text(rows.drop(["split"]), header=False))
        elif name == "diabetes130":
            with zipfile.ZipFile(folder / "dataset_diabetes.zip", "w") as archive:
                archive.writestr("dataset_diabetes/diabetic_data.csv", text(tables[0]))
        else:
            with zipfile.ZipFile(folder / "ml-latest-small.zip", "w") as archive:
                archive.writestr("ml-latest-small/ratings.csv", text(tables[0]))
                archive.writestr("ml-latest-small/movies.csv", text(tables[1]))

    routes(entry, data, link, public)


SHAPES = {
    "mnist-b": (11_982, 784, 1_984, 2),
    "mnist": (60_000, 784, 10_000, 10),
    "cifar2": (10_000, 3_072, 2_000, 2),
    "covtype": (522_910, 54, 58_102, 2),
    "higgs": (84_627, 28, 9_402, 2),
    "a9a": (32_561, 123, 16_281, 2),
    "adult": (32_561, 108, 16_281, 2),
    "diabetes130": (81_197, 229, 20_569, 2),
    "movielens": (90_753, 21, 10_083, 2),
    "hapt": (7_415, 215, 2_996, 6),
    "news20": (12_748, 62_061, 3_187, 20),
    "newsgroups": (11_314, 53_665, 7_532, 20),
    "newsgroups20": (11_314, 1_000, 7_532, 20),
}


@pytest.mark.parametrize("name", SHAPES)
def test_real_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNFIT_DATA", REAL or "")
    entry = catalog.find(name)
    if not (Path(REAL or "") / entry.file_sets[0].files[0].name).is_file():
        pytest.skip(f"UNFIT_DATA holds no {entry.file_sets[0].files[0].name}")
    made = catalog.load(name)
    assert (*made.X.shape, len(made.y_test), made.k) == SHAPES[name]
    norm = {"mnist-b": 0.9326, "cifar2": 0.9399}.get(name, 1)  # of two classes, by that of ten
    assert np.isclose(scaling.largest_norm(made.X), norm, atol=1e-4)
    share = np.bincount(made.y)[entry.target] / made.n
    assert entry.volumes is not None
    assert entry.volumes[2] <= entry.theta < share  # there are so many rows to delete
    title = {"higgs": "HIGGS, subset of 84,627 rows", "news20": "news20, subset of 12,748 rows"}
    assert made.title == title.get(name, entry.title)
    if name == "diabetes130":
        assert made.groups is not None
        assert len(np.unique(made.groups)) == 71_518 - 14_303  # four fifths of the patients


def test_real_mnist_b_is_scaled_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNFIT_DATA", REAL or "")
    made = catalog.load("mnist-b")
    with np.load(Path(REAL or "") / "mnist.npz") as arrays:
        kept = np.isin(arrays["y_train"], (3, 8))
        rows = (arrays["x_train"] / np.float32(255) - 0.1307) / 0.3081
    np.testing.assert_allclose(made.X, rows[kept] / np.linalg.norm(rows, axis=1).max(), atol=1e-6)
