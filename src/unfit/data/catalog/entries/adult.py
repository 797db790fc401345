"""Adult: does a person earn more than 50,000 dollars; as the census has it, and as a9a."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unfit.data.catalog import formats, scaling, sparse_arrays, tables
from unfit.data.catalog.entry import Entry, File, FileSet, Parts, RawArrays, Training
from unfit.errors import BadInput

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
)
_TRAINING = Training(epochs=200, batch_size=512, burn_in=10)
_VOLUMES = (0.05, 0.1, 0.2)


def _read_parquet(paths: Mapping[str, Path]) -> RawArrays:
    return formats.parquet_columns(paths["adult.parquet"], (*_COLUMNS, "split"))


def _read_csv(paths: Mapping[str, Path]) -> RawArrays:
    """adult.test begins with a line that is not a row, and ends its classes with a full stop."""
    halves = []
    for name in ("adult.data", "adult.test"):
        content = paths[name].read_bytes()
        lines = content.splitlines()
        kept = b"\n".join(line for line in lines if line.strip() and not line.startswith(b"|"))
        halves.append(formats.csv_columns(kept + b"\n", name, _COLUMNS))
    raw = {name: np.concatenate([half[name] for half in halves]) for name in _COLUMNS}
    raw["income"] = np.char.rstrip(raw["income"], ".")
    sizes = [len(half["income"]) for half in halves]
    raw["split"] = np.repeat(["train", "test"], sizes)
    return raw


def prepare(raw: RawArrays) -> Parts:
    """Numbers standardised, texts one-hot, both by the training rows; the largest norm."""
    test = raw["split"] == "test"
    if unknown := set(np.unique(raw["income"]).tolist()) - {"<=50K", ">50K"}:
        raise BadInput(f"adult: income is <=50K or >50K, not {sorted(unknown)[0]!r}")
    texts = [name for name in _COLUMNS[:-1] if name not in _NUMBERS]
    blocks = [scaling.standardise_columns(tables.numbers(raw, _NUMBERS), test)]
    blocks += [tables.one_hot(raw[name], test) for name in texts]
    return tables.parts(blocks, raw["income"] == ">50K", test)


def _read_a9a_npz(paths: Mapping[str, Path]) -> RawArrays:
    pieces = ("data", "indices", "indptr", "shape")
    names = [f"{part}_{piece}" for part in ("train", "test") for piece in pieces]
    return formats.npz(paths["a9a.npz"], (*names, "y_train", "y_test"))


def _read_a9a_text(paths: Mapping[str, Path]) -> RawArrays:
    raw: dict[str, np.ndarray] = {}
    for part, name in (("train", "a9a"), ("test", "a9a.t")):
        X, y = formats.libsvm_sparse(paths[name], 123)
        raw |= {"y_" + part: y, f"{part}_shape": np.array(X.shape)}
        raw |= {f"{part}_{piece}": getattr(X, piece) for piece in sparse_arrays.PIECES}
    return raw


def prepare_a9a(raw: RawArrays) -> Parts:
    """Ones and zeros, divided by the largest norm; sparse."""
    found = []
    for part in ("train", "test"):
        n, width = raw[f"{part}_shape"].tolist()
        pieces = [raw[f"{part}_{piece}"] for piece in sparse_arrays.PIECES]
        with formats.reading("a9a"):
            found.append(sparse_arrays.matrix(pieces, (n, width)))
    X, X_test = found
    sparse_arrays.max_norm(X, X_test)
    y, y_test = ((raw[name] > 0).astype(np.int64) for name in ("y_train", "y_test"))
    return Parts(X, y, X_test, y_test)


ENTRIES = (
    Entry(
        name="adult",
        title="Adult",
        about="Census rows: does a person earn more than 50,000 dollars a year.",
        citation="Becker and Kohavi 1996, Adult, UCI machine learning repository",
        terms="CC BY 4.0 (UCI)",
        file_sets=(
            FileSet(
                (
                    File(
                        "adult.parquet",
                        "sha256:ec1609468c067347e455712e21215c44eb6493993d24934b5b082b7167be4fa2",
                        414158,
                    ),
                ),
                _read_parquet,
            ),
            FileSet(
                (
                    File(
                        "adult.data",
                        "sha256:5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                        3974305,
                        f"{_UCI}adult.data",
                    ),
                    File(
                        "adult.test",
                        "sha256:a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                        url=f"{_UCI}adult.test",
                    ),
                ),
                _read_csv,
            ),
        ),
        prepare=prepare,
        training=_TRAINING,
        intercept=True,
        volumes=_VOLUMES,
        rows=32_561,
    ),
    Entry(
        name="a9a",
        title="a9a",
        about="Adult as 123 columns of zeros and ones, sparse.",
        citation="Platt 1998, Fast training of support vector machines using sequential minimal "
        "optimization",
        terms="derived from Adult (CC BY 4.0) by the LIBSVM project",
        file_sets=(
            FileSet(
                (
                    File(
                        "a9a.npz",
                        "sha256:96e50a7778e8780742e76f4d0172e4b7b8d33227dfe9713fda848f2ef4988a34",
                        402054,
                    ),
                ),
                _read_a9a_npz,
            ),
            FileSet(tuple(File(n, url=_LIBSVM + n) for n in ("a9a", "a9a.t")), _read_a9a_text),
        ),
        prepare=prepare_a9a,
        training=_TRAINING,
        intercept=True,
        volumes=_VOLUMES,
        version=2,
        rows=32_561,
    ),
)
