"""Every format gives the arrays that were written; what is cut or wrong is said with its name."""

import bz2
import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from unfit.data.catalog import formats
from unfit.data.sources import base
from unfit.errors import BadInput

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 4, 5), np.uint8)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNFIT_CACHE", str(tmp_path / "cache"))


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return head + array.tobytes()


def write(path: Path, content: bytes) -> Path:
    packers: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
    path.write_bytes(packers.get(path.suffix, bytes)(content))
    return path


def cut(path: Path) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    return path


@pytest.mark.parametrize("name", ["images", "images.gz"])
def test_idx(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, idx(IMAGES))
    np.testing.assert_array_equal(formats.idx(path), IMAGES.reshape(7, 20))
    np.testing.assert_array_equal(formats.idx(write(path, idx(IMAGES[:, 0, 0]))), IMAGES[:, 0, 0])
    with pytest.raises(BadInput, match=name):
        formats.idx(cut(write(path, idx(IMAGES))))


@pytest.mark.parametrize("content", [b"", b"\0\0", b"PK\3\4rest", b"\0\0\x0d\1\0\0\0\0"])
def test_what_is_not_idx_is_said(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="images is not an IDX file"):
        formats.idx(write(tmp_path / "images", content))


def test_idx_says_what_its_head_announces(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="157 bytes instead of the 156"):
        formats.idx(write(tmp_path / "images", idx(IMAGES) + b"x"))
    with pytest.raises(BadInput, match="instead of"):
        formats.idx(write(tmp_path / "images", b"\0\0\x08\3\0\0\0\1"))


def cifar_rows(n: int) -> np.ndarray:
    rows = RNG.integers(0, 256, (n, 3073), np.uint8)
    rows[:, 0] = np.arange(n) % 10
    return rows


def test_cifar_batches() -> None:
    rows = cifar_rows(12)
    pixels, labels = formats.cifar(rows.tobytes(), "batch")
    np.testing.assert_array_equal(pixels, rows[:, 1:])
    np.testing.assert_array_equal(labels, rows[:, 0])
    with pytest.raises(BadInput, match="batch has 36,875 bytes"):
        formats.cifar(rows.tobytes()[:-1], "batch")
    rows[3, 0] = 77
    with pytest.raises(BadInput, match="batch: row 4 is labelled 77"):
        formats.cifar(rows.tobytes(), "batch")


def tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(f"folder/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_tar_members_are_read_and_not_unpacked(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar.gz", {"one.bin": bytes(RNG.bytes(5000)), "two.bin": b"2"})
    assert formats.tar_members(path, ["two.bin"]) == {"two.bin": b"2"}
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar.gz"]
    with pytest.raises(BadInput, match="a.tar.gz holds no three.bin"):
        formats.tar_members(path, ["one.bin", "three.bin"])
    with pytest.raises(BadInput, match="cannot read a.tar.gz"):
        formats.tar_members(cut(path), ["one.bin", "two.bin"])
    path.write_bytes(b"no archive")
    with pytest.raises(BadInput, match="cannot read a.tar.gz"):
        formats.tar_members(path, ["one.bin"])


def test_zip_members(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("folder/t.csv", "a,b\n1,2\n")
    assert formats.zip_member(path, "t.csv") == b"a,b\n1,2\n"
    with pytest.raises(BadInput, match="a.zip holds no u.csv"):
        formats.zip_member(path, "u.csv")
    with pytest.raises(BadInput, match="cannot read a.zip"):
        formats.zip_member(cut(path), "t.csv")


def test_npz_executes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, X=IMAGES, odd=np.array([{"a": 1}], dtype=object))
    np.testing.assert_array_equal(formats.npz(path, ["X"])["X"], IMAGES)
    with pytest.raises(BadInput, match="a.npz holds no array y"):
        formats.npz(path, ["X", "y"])
    with pytest.raises(BadInput, match="cannot read a.npz"):
        formats.npz(path, ["odd"])
    with pytest.raises(BadInput, match="cannot read a.npz"):
        formats.npz(cut(path), ["X"])


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_numbers_of_a_csv_file(name: str, tmp_path: Path) -> None:
    values = RNG.integers(-9, 9, (500, 3)) / 4
    text = "".join(",".join(f"{v:.3e}" for v in row) + "\n" for row in values).encode()
    path = write(tmp_path / name, text)
    found = formats.csv_numbers(path, 3)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, values)
    with pytest.raises(BadInput, match=name):
        formats.csv_numbers(path, 4)
    with pytest.raises(BadInput, match=name):
        formats.csv_numbers(write(path, text + b"1,x,3\n"), 3)
    if name.endswith(".gz"):
        with pytest.raises(BadInput, match=name):
            formats.csv_numbers(cut(write(path, text)), 3)


def test_columns_of_csv_and_parquet_are_the_same_text(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 20], "t": pa.array(["a, b", ""]).dictionary_encode()})
    parquet.write_table(table, tmp_path / "t.parquet")
    columns = formats.parquet_columns(tmp_path / "t.parquet", ["n", "t"])
    text = b'n,t\n1,"a, b"\n20,\n'
    for key, column in formats.csv_columns(text, "t.csv").items():
        assert column.tolist() == columns[key].tolist()
    with pytest.raises(BadInput, match="t.parquet holds no column u"):
        formats.parquet_columns(tmp_path / "t.parquet", ["u"])
    with pytest.raises(BadInput, match="t.csv holds no column u"):
        formats.csv_columns(text, "t.csv", needed=["u"])
    with pytest.raises(BadInput, match="cannot read t.csv.*Row #4"):
        formats.csv_columns(text + b"1,2,3\n", "t.csv")
    with pytest.raises(BadInput, match="t.csv holds no rows"):
        formats.csv_columns(b"n,t\n", "t.csv")
    with pytest.raises(BadInput, match="cannot read t.parquet"):
        formats.parquet_columns(cut(tmp_path / "t.parquet"), ["n"])


@pytest.mark.parametrize("name", ["t", "t.gz", "t.bz2"])
def test_libsvm_is_streamed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", 500)
    X = RNG.standard_normal((90, 6)).astype(np.float32).round(3)
    y = np.where(RNG.random(90) < 0.5, -1, 1)
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) + "\n"
        for row, label in zip(X, y, strict=True)
    ]
    path = write(tmp_path / name, "".join(lines).encode())
    rows, labels = formats.libsvm_dense(path, 6)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)
    sparse, labels = formats.libsvm_sparse(path, 6)
    np.testing.assert_array_equal(sparse.toarray().astype(np.float32), X)
    lines[70] = "1 1:0.5 2:x\n"
    with pytest.raises(BadInput, match=f"{name}: line 71 is not"):
        formats.libsvm_dense(write(path, "".join(lines).encode()), 6)
    lines[70] = "1 1:0.5 7:1\n"
    with pytest.raises(BadInput, match=f"{name}: line 71 has an index above 6"):
        formats.libsvm_dense(write(path, "".join(lines).encode()), 6)
    if name != "t":
        with pytest.raises(BadInput, match=f"cannot read {name}"):
            formats.libsvm_dense(cut(path), 6)
    with pytest.raises(BadInput, match=f"{name} holds no rows"):
        formats.libsvm_dense(write(path, b""), 6)


def test_nothing_streamed_stays_on_the_disk(tmp_path: Path) -> None:
    rows = formats.gathered([np.ones((3, 2)), np.zeros((2, 2))], "made-up")
    np.testing.assert_array_equal(rows[:, 0], [1, 1, 1, 0, 0])
    rows[0] = 7  # mapped for writing: scaled in place
    assert list((tmp_path / "cache" / "prepared").iterdir()) == []
