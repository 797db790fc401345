"""Readers of the formats public data sets come in: arrays, or a sentence that names the file.

What may be larger than memory is streamed into a temporary file that has no name (it is gone when
the process is, however that ends) and mapped from there.
"""

import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unfit.data.catalog import cache
from unfit.data.sources.base import unpacked
from unfit.data.sources.libsvm_file import libsvm_blocks
from unfit.errors import BadInput

if TYPE_CHECKING:
    from scipy import sparse

IDX_BYTES = 0x08  # the type code of unsigned bytes
CIFAR_ROW = 1 + 3 * 32 * 32  # label, then red, green, blue


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Whatever a reader says, in a sentence that names the file."""
    try:
        yield
    except BadInput:
        raise
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        zlib.error,
        lzma.LZMAError,
        tarfile.TarError,
        zipfile.BadZipFile,
    ) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise BadInput(f"cannot read {name}: {first}") from None


def idx(path: Path) -> np.ndarray:
    """An IDX file of bytes (MNIST's format), plain or .gz: rows flattened, (n, p) or (n,)."""
    with reading(path.name), unpacked(path) as file:
        content = file.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != IDX_BYTES:
        raise BadInput(f"{path.name} is not an IDX file of bytes: it begins {content[:4]!r}")
    start = 4 + 4 * content[3]
    shape = [int(size) for size in np.frombuffer(content[4:start], ">i4")]
    expected = start + int(np.prod(shape, dtype=np.int64))
    if len(shape) != content[3] or len(content) != expected:
        raise BadInput(
            f"{path.name} has {len(content):,} bytes instead of the {expected:,} its head announces"
        )
    rows = np.frombuffer(content, np.uint8, offset=start)
    return rows if len(shape) == 1 else rows.reshape(shape[0], -1)


def cifar(content: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A batch of CIFAR-10's binary version: pixels (n, 3072), labels (n,)."""
    if not content or len(content) % CIFAR_ROW:
        raise BadInput(
            f"{name} has {len(content):,} bytes, not a multiple of {CIFAR_ROW:,}: it is not "
            "CIFAR-10 in the binary version, or not whole"
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_ROW)
    if rows[:, 0].max() > 9:
        at = int(np.argmax(rows[:, 0] > 9))
        raise BadInput(f"{name}: row {at + 1} is labelled {rows[at, 0]}; labels are 0 to 9")
    return rows[:, 1:], rows[:, 0]


def tar_members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Members of a tar archive by their base names, read and never unpacked to disk."""
    found: dict[str, bytes] = {}
    with reading(path.name), tarfile.open(path) as archive:
        for member in archive:
            base = member.name.rpartition("/")[2]
            if base in names and member.isfile():
                stream = archive.extractfile(member)
                found[base] = stream.read() if stream else b""
    if missing := [name for name in names if name not in found]:
        raise BadInput(f"{path.name} holds no {', '.join(missing)}")
    return found


def zip_member(path: Path, name: str) -> bytes:
    """A member of a zip archive by its base name."""
    with reading(path.name), zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.rpartition("/")[2] == name:
                return archive.read(member)
    raise BadInput(f"{path.name} holds no {name}")


def npz(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Named arrays of an .npz file; nothing in it is executed."""
    with reading(path.name), np.load(path, allow_pickle=False) as arrays:
        if missing := [name for name in names if name not in arrays]:
            raise BadInput(f"{path.name} holds no array {', '.join(missing)}")
        return {name: arrays[name] for name in names}


def gathered(
    blocks: Iterable[np.ndarray], name: str, nbytes: int = 0, dtype: type = np.float32
) -> np.ndarray:
    """Blocks of rows, (n, p), one under another in a mapped file that has no name.

    nbytes: room the disk must have before the first block is made, where that is known.
    """
    folder = cache.ensure_folder("prepared")
    n, width = 0, 0
    with (
        cache.require_space(folder, nbytes, f"unpacking {name}"),
        tempfile.TemporaryFile(dir=folder) as file,
    ):
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype).data)
            n, width = n + len(block), block.shape[1]
        file.flush()
        if n == 0:
            raise BadInput(f"{name} holds no rows")
        # not more than was written: a mapped hole on a full disk would end the process
        return np.memmap(file, dtype, "r+", shape=(n, width))


def csv_numbers(path: Path, width: int) -> np.ndarray:
    """A CSV file of `width` numbers a line without a header, plain or .gz: (n, width) float32."""
    return gathered(_number_blocks(path, width), path.name)


def _number_blocks(path: Path, width: int) -> Iterator[np.ndarray]:
    import pyarrow as pa
    from pyarrow import csv

    names = [str(i) for i in range(width)]
    with reading(path.name), unpacked(path) as file:
        reader = csv.open_csv(
            file,
            csv.ReadOptions(use_threads=False, block_size=8 << 20, column_names=names),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.float32() for name in names}, null_values=[]
            ),
        )
        for batch in reader:
            yield np.column_stack([column.to_numpy() for column in batch.columns])


def csv_columns(
    content: bytes, name: str, header: Sequence[str] | None = None, needed: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """The columns of a small CSV file as text, stripped; named by `header` or by its first line."""
    from csv import reader

    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    with reading(name):
        options = csv.ReadOptions(
            use_threads=False, column_names=None if header is None else list(header)
        )
        names = header or next(reader([content.split(b"\n", 1)[0].decode().strip()]))
        table = csv.read_csv(
            pa.BufferReader(content),
            options,
            csv.ParseOptions(newlines_in_values=False),
            csv.ConvertOptions(
                column_types={name: pa.string() for name in names}, strings_can_be_null=False
            ),
        )
        columns = {
            key: np.asarray(pc.utf8_trim_whitespace(table[key]).to_pylist(), np.str_)
            for key in table.column_names
        }
    return _with(columns, needed, name)


def parquet_columns(path: Path, needed: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The columns of a Parquet file as text."""
    from pyarrow import parquet

    from unfit.data.text import as_text

    with reading(path.name):
        table = parquet.read_table(path)
        columns = {
            key: [text for chunk in table[key].chunks for text in as_text(chunk).to_pylist()]
            for key in table.column_names
        }
    found = {k: np.asarray([text or "" for text in texts], np.str_) for k, texts in columns.items()}
    return _with(found, needed, path.name)


def _with(
    columns: dict[str, np.ndarray], needed: Sequence[str], name: str
) -> dict[str, np.ndarray]:
    if missing := [column for column in needed if column not in columns]:
        raise BadInput(f"{name} holds no column {', '.join(missing)}")
    if not len(next(iter(columns.values()), ())):
        raise BadInput(f"{name} holds no rows")
    return columns


def libsvm_dense(path: Path, width: int) -> tuple[np.ndarray, np.ndarray]:
    """A LIBSVM file, plain, .gz or .bz2, streamed: rows (n, width) float32, labels (n,)."""
    labels: list[np.ndarray] = []

    def rows() -> Iterator[np.ndarray]:
        for X, y in libsvm_blocks(path, width):
            labels.append(y)
            yield X.toarray()

    return gathered(rows(), path.name), np.concatenate(labels)


def libsvm_sparse(path: Path, width: int) -> tuple["sparse.csr_matrix", np.ndarray]:
    """A LIBSVM file that fits in memory as sparse rows, and its labels."""
    from scipy import sparse

    rows, labels = zip(*libsvm_blocks(path, width), strict=True)
    return sparse.vstack(rows, format="csr"), np.concatenate(labels)
