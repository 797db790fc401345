"""The data sets: the same rows by every route, prepared as the paper did."""

import bz2
import gzip
import io
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from routes import routes, unchecked
from unfit.data import catalog
from unfit.data.catalog import prepared, scaling
from unfit.data.catalog.entries import clicks, covtype, epsilon
from unfit.errors import BadInput

pytestmark = pytest.mark.usefixtures("data")
RNG = np.random.default_rng(0)


def test_every_entry_says_what_it_is() -> None:
    assert len(catalog.names()) == len(set(catalog.names())) == 19
    paper = [entry.name for entry in catalog.CATALOG.values() if entry.paper]
    assert sorted(paper) == ["cifar2", "covtype", "epsilon", "higgs", "mnist", "mnist-b"]
    for entry in catalog.CATALOG.values():
        assert entry.about.endswith(".")
        assert entry.citation
        assert entry.terms
        assert entry.volumes is not None
        assert 0 < entry.volumes[0] < entry.volumes[1] < entry.volumes[2] <= entry.theta < 1
        for source in entry.file_sets:
            for file in source.files:
                assert file.url is None or file.url.startswith("https://")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(BadInput, match="no data set 'minst'; there are mnist-b, mnist, covtype"):
        catalog.load("minst")


def test_a_stranger_adds_a_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "CATALOG", dict(catalog.CATALOG))
    mine = replace(catalog.find("digits"), name="mine", title="Mine")
    catalog.register(mine)
    assert catalog.load("mine").title == "Mine"
    with pytest.raises(BadInput, match="already"):
        catalog.register(mine)
    with pytest.raises(BadInput, match="'../x' is not a valid name"):
        catalog.register(replace(mine, name="../x"))


@pytest.mark.parametrize("name", ["digits", "digits-b", "breast-cancer"])
def test_what_ships_with_scikit_learn_needs_no_file(name: str) -> None:
    made = catalog.load(name)
    assert (made.n, made.k) == (
        {"breast-cancer": 456}.get(name, 1438),
        10 if name == "digits" else 2,
    )
    assert made.d == made.X.shape[1] + 1
    assert np.isclose(scaling.largest_norm(made.X), 1, atol=1e-6)
    assert isinstance(made.X, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        made.X[0, 0] = 1


# MNIST


def mnist_arrays() -> dict[str, np.ndarray]:
    return {
        "x_train": RNG.integers(0, 256, (60, 784), np.uint8),
        "y_train": (np.arange(60) % 10).astype(np.uint8),
        "x_test": RNG.integers(0, 256, (20, 784), np.uint8),
        "y_test": (np.arange(20) % 10).astype(np.uint8),
    }


def write_idx(arrays: dict[str, np.ndarray], packed: bool, folder: Path) -> None:
    for part, stem in (("train", "train"), ("test", "t10k")):
        x, y = arrays[f"x_{part}"].reshape(-1, 28, 28), arrays[f"y_{part}"]
        for array, kind in ((x, "images-idx3"), (y, "labels-idx1")):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
            content, name = head + array.tobytes(), f"{stem}-{kind}-ubyte"
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)


@pytest.mark.parametrize("name", ["mnist", "mnist-b"])
def test_mnist_is_the_same_from_npz_and_idx(name: str, data: Path) -> None:
    arrays = mnist_arrays()
    made, *_ = routes(
        catalog.find(name),
        data,
        lambda folder: np.savez(folder / "mnist.npz", **arrays),
        partial(write_idx, arrays, True),
        partial(write_idx, arrays, False),
    )
    assert made.d == 784
    x, y = arrays["x_train"] / 255, arrays["y_train"]
    x_test = arrays["x_test"] / 255
    mean, sd = 0.1307, 0.3081
    factor = np.linalg.norm((x - mean) / sd, axis=1).max()  # of all ten digits, for 3 and 8 too
    if name == "mnist":
        np.testing.assert_array_equal(made.y, y)
    else:
        kept = (y == 3) | (y == 8)
        x, x_test = x[kept], x_test[np.isin(arrays["y_test"], (3, 8))]
        np.testing.assert_array_equal(made.y, y[kept] == 8)
    np.testing.assert_allclose(made.X, (x - mean) / sd / factor, atol=1e-6)
    np.testing.assert_allclose(made.X_test, (x_test - mean) / sd / factor, atol=1e-6)


# CIFAR2


def test_cifar2_is_the_same_from_every_route(data: Path) -> None:
    batches = {}
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        rows = RNG.integers(0, 256, (20, 3073), np.uint8)
        rows[:, 0] = RNG.permutation(20) % 10
        batches[name] = rows
    train = np.concatenate([batches[f"data_batch_{i}.bin"] for i in range(1, 6)])
    test = batches["test_batch.bin"]
    arrays = {}
    for part, rows in (("train", train), ("test", test)):
        kept = rows[np.isin(rows[:, 0], (3, 8))]
        arrays[f"x_{part}"], arrays[f"y_{part}"] = kept[:, 1:], kept[:, 0]

    def write_tar(folder: Path) -> None:
        with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
            for name, rows in batches.items():
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
                member.size = rows.nbytes
                archive.addfile(member, io.BytesIO(rows.tobytes()))

    def write_loose(folder: Path) -> None:
        for name, rows in batches.items():
            (folder / name).write_bytes(rows.tobytes())

    made, *_ = routes(
        catalog.find("cifar2"),
        data,
        lambda folder: np.savez(folder / "cifar2_cat_ship.npz", **arrays),
        write_tar,
        write_loose,
    )
    assert made.d == 3073
    assert made.title == "CIFAR2, subset of 20 rows"
    np.testing.assert_array_equal(made.y, arrays["y_train"] == 8)
    pixels = arrays["x_train"].astype(np.float64) / 255
    np.testing.assert_allclose(made.X, pixels / 54.77, rtol=1e-5, atol=1e-7)


# COVTYPE and HIGGS


def test_covtype_is_the_same_from_npz_and_csv(data: Path) -> None:
    n = 400
    arrays = {
        "X_num": RNG.integers(-300, 7000, (n, 10)).astype(np.int16),
        "wilderness": RNG.integers(0, 4, n).astype(np.uint8),
        "soil": RNG.integers(0, 40, n).astype(np.uint8),
        "cover_type": RNG.choice(7, n, p=[0.3, 0.5, 0.04, 0.04, 0.04, 0.04, 0.04]) + 1,
    }

    def write_csv(folder: Path) -> None:
        onehot = [np.eye(4, dtype=int)[arrays["wilderness"]], np.eye(40, dtype=int)[arrays["soil"]]]
        rows = np.hstack([arrays["X_num"], *onehot, arrays["cover_type"][:, None]])
        text = "".join(",".join(map(str, row)) + "\n" for row in rows.tolist())
        (folder / "covtype.data.gz").write_bytes(gzip.compress(text.encode()))

    small = replace(catalog.find("covtype"), prepare=partial(covtype.prepare, n_test=41))
    made, *_ = routes(
        small, data, lambda folder: np.savez(folder / "covtype.npz", **arrays), write_csv
    )
    assert made.X.shape == (n - 41, 54)
    assert made.X_test.shape == (41, 54)
    twos = (arrays["cover_type"] == 2).mean()
    assert abs(made.y_test.mean() - twos) <= 1 / 41
    assert abs(made.y.mean() - twos) <= 1 / (n - 41)
    both = np.vstack([made.X, made.X_test])
    onehot = both[:, 10:]
    assert ((onehot > 0).sum(axis=1) == 2).all()
    np.testing.assert_allclose(both[:, :10].max(axis=0), onehot.max(), rtol=1e-6)  # [0, 1] by all
    assert (both[:, :10].min(axis=0) == 0).all()


def test_a_row_of_covtype_without_a_soil_is_named(data: Path) -> None:
    row = [0] * 55
    row[10] = row[20] = row[54] = 1
    wrong = [*row[:20], 0, *row[21:]]
    text = "".join(",".join(map(str, r)) + "\n" for r in (row, row, wrong))
    (data / "covtype.data.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(BadInput, match="covtype.data.gz: row 3 does not have exactly one soil"):
        prepared.prepare(unchecked(catalog.find("covtype")))


def test_higgs_of_the_whole_file(data: Path) -> None:
    X = RNG.standard_normal((200, 28)).astype(np.float32)
    y = (RNG.random(200) < 0.53).astype(int)
    text = "".join(
        ",".join([f"{label:.18e}", *(f"{v:.18e}" for v in row)]) + "\n"
        for label, row in zip(y, X.tolist(), strict=True)
    )
    (data / "HIGGS.csv.gz").write_bytes(gzip.compress(text.encode()))
    made = prepared.prepare(unchecked(catalog.find("higgs")))
    assert (made.n, len(made.y_test), made.title) == (180, 20, "HIGGS, subset of 180 rows")
    test = scaling.stratified(y, 20, 0)
    low, high = X[~test].min(axis=0), X[~test].max(axis=0)  # of the training rows alone
    unit = (X - low) / (high - low)
    factor = np.linalg.norm(unit[~test], axis=1).max()
    np.testing.assert_allclose(made.X, unit[~test] / factor, atol=1e-6)
    np.testing.assert_allclose(made.X_test, unit[test] / factor, atol=1e-6)


def test_a_stratified_split_keeps_every_share_and_its_size() -> None:
    y = RNG.choice(5, 1003, p=[0.5, 0.3, 0.1, 0.07, 0.03])
    test = scaling.stratified(y, 101, seed=3)
    assert test.sum() == 101
    for code in range(5):
        assert abs(test[y == code].sum() - 101 * (y == code).mean()) < 1
    np.testing.assert_array_equal(test, scaling.stratified(y, 101, seed=3))
    assert (test != scaling.stratified(y, 101, seed=4)).any()


# EPSILON, a9a, news20: LIBSVM


def libsvm(X: np.ndarray, y: np.ndarray) -> bytes:
    lines = [
        f"{label:+d} " + " ".join(f"{j + 1}:{v:g}" for j, v in enumerate(row) if v) + "\n"
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    return "".join(lines).encode()


def test_epsilon_from_its_format(data: Path) -> None:
    X, X_test = (RNG.standard_normal((n, 2000)).round(2).astype(np.float32) for n in (30, 10))
    y, y_test = (np.where(RNG.random(n) < 0.5, -1, 1) for n in (30, 10))
    train, test = libsvm(X, y), libsvm(X_test, y_test)

    def packed(folder: Path) -> None:
        (folder / "epsilon_normalized.bz2").write_bytes(bz2.compress(train))
        (folder / "epsilon_normalized.t.bz2").write_bytes(bz2.compress(test))

    def unpacked(folder: Path) -> None:
        (folder / "epsilon_normalized").write_bytes(train)
        (folder / "epsilon_normalized.t").write_bytes(test)

    made, *_ = routes(catalog.find("epsilon"), data, packed, unpacked)
    np.testing.assert_array_equal(made.y, y > 0)
    factor = np.linalg.norm(X.astype(np.float64), axis=1).max()
    np.testing.assert_allclose(made.X_test, X_test / factor, rtol=1e-5)


def test_epsilon_like_is_the_same_for_a_seed() -> None:
    made = epsilon.generate(5000, 500, 20, seed=1)
    made.check("epsilon-like")
    assert made.X.shape == (5000, 20)
    np.testing.assert_allclose(np.linalg.norm(made.X, axis=1), 1, rtol=1e-5)
    again, other = (epsilon.generate(5000, 500, 20, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(made.X, again.X)
    np.testing.assert_array_equal(made.y, again.y)
    assert (made.X[0] != other.X[0]).any()
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=100).fit(made.X, made.y)
    assert model.score(made.X_test, made.y_test) > 0.75


def test_a9a_is_the_same_from_npz_and_text(data: Path) -> None:
    from scipy import sparse

    arrays: dict[str, np.ndarray] = {}
    texts = {}
    for part, n in (("train", 50), ("test", 20)):
        X = sparse.csr_matrix((RNG.random((n, 123)) < 0.1).astype(np.uint8))
        y = np.where(RNG.random(n) < 0.3, 1, -1)
        pieces = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
        arrays |= {f"{part}_{key}": np.asarray(value) for key, value in pieces.items()}
        arrays[f"y_{part}"] = y
        texts[part] = libsvm(X.toarray(), y)

    def write_text(folder: Path) -> None:
        (folder / "a9a").write_bytes(texts["train"])
        (folder / "a9a.t").write_bytes(texts["test"])

    write_npz = lambda folder: np.savez(folder / "a9a.npz", **arrays)  # noqa: E731
    made, *_ = routes(catalog.find("a9a"), data, write_npz, write_text)
    assert made.d == 124
    assert made.sparse
    pieces = tuple(arrays[f"train_{piece}"] for piece in ("data", "indices", "indptr"))
    X = sparse.csr_matrix(pieces, shape=(50, 123)).toarray()
    np.testing.assert_allclose(made.X.toarray(), X / np.sqrt(X.sum(axis=1).max()), rtol=1e-6)
    np.testing.assert_array_equal(made.dense().X, made.X.toarray())


def test_news20_is_tf_idf_of_every_word_with_rows_of_norm_one(data: Path) -> None:
    from sklearn.feature_extraction.text import TfidfTransformer

    X = RNG.poisson(0.02, (100, 3000))
    y = np.arange(100) % 20 + 1
    for name, rows in (("news20.bz2", slice(80)), ("news20.t.bz2", slice(80, 100))):
        (data / name).write_bytes(bz2.compress(libsvm(X[rows], y[rows])))
    made = prepared.prepare(unchecked(catalog.find("news20")))
    assert made.sparse
    assert made.X.shape == (80, 62_061)
    assert (made.k, len(made.y_test)) == (20, 20)
    np.testing.assert_allclose(np.linalg.norm(made.X.toarray(), axis=1), 1, rtol=1e-5)
    used = np.flatnonzero(X[:80].any(axis=0))  # scikit-learn's idf is ours plus 1 without smoothing
    reference = TfidfTransformer(smooth_idf=False, sublinear_tf=True, norm=None).fit(X[:80, used])
    counts = X[:, used]
    logged = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0)
    expected = logged[:80] * (reference.idf_ - 1)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(made.X.toarray()[:, used], expected, atol=1e-6)


def newsgroups(data: Path, n: int = 100, words: int = 1500) -> np.ndarray:
    from scipy import sparse

    counts = RNG.poisson(0.03, (n, words))
    X = sparse.csr_matrix(counts)
    pieces = {"data": X.data.astype(np.uint8), "indices": X.indices, "indptr": X.indptr}
    np.savez(
        data / "newsgroups20_counts.npz",
        **pieces,
        shape=np.array(X.shape),
        y=np.arange(n) % 20,
        split=(np.arange(n) >= 80).astype(np.uint8),
        author=np.arange(n) // 3,
    )
    return counts


def test_newsgroups_says_who_wrote_what(data: Path) -> None:
    newsgroups(data)
    made = prepared.prepare(unchecked(catalog.find("newsgroups")))
    assert made.sparse
    assert made.X.shape == (80, 1500)
    np.testing.assert_array_equal(made.groups, np.arange(80) // 3)
    np.testing.assert_allclose(np.linalg.norm(made.X.toarray(), axis=1), 1, rtol=1e-5)
    for array in (made.X.data, made.X.indices):
        while isinstance(array.base, np.ndarray):
            array = array.base
        assert isinstance(array, np.memmap)


def test_the_thousand_commonest_words_are_dense(data: Path) -> None:
    counts = newsgroups(data)
    made = prepared.prepare(unchecked(catalog.find("newsgroups20")))
    assert not made.sparse
    assert made.X.shape == (80, 1000)
    df = (counts[:80] > 0).sum(axis=0)
    common = np.sort(np.argsort(-df, kind="stable")[:1000])
    expected = np.where(counts[0, common] > 0, 1 + np.log(np.maximum(counts[0, common], 1)), 0)
    expected = expected * np.log(80 / np.maximum(df[common], 1))
    np.testing.assert_allclose(made.X[0], expected / np.linalg.norm(expected), rtol=1e-4)


def test_sparse_rows_that_a_model_cannot_take_are_named() -> None:
    from scipy import sparse

    y = np.array([0, 1, 0])

    def parts(data: list[float], indices: list[int]) -> catalog.Parts:
        X = sparse.csr_array((np.array(data, np.float32), indices, [0, 1, 3, 3]), (3, 4))
        return catalog.Parts(X, y, X, y)

    parts([1, 2, 3], [3, 0, 1]).check("t")
    with pytest.raises(BadInput, match="t: row 1 holds a non-finite number"):
        parts([1, 2, np.nan], [3, 0, 1]).check("t")
    for indices in ([3, 1, 0], [3, 1, 1]):
        with pytest.raises(BadInput, match="t: the column indices of row 1 do not rise"):
            parts([1, 2, 3], indices).check("t")
    dense = parts([1, 2, 3], [3, 0, 1])
    with pytest.raises(BadInput, match="both be dense, or both sparse"):
        replace(dense, X_test=dense.X.toarray()).check("t")


# Made up


def test_a_click_log_is_the_same_for_a_seed() -> None:
    made = clicks.generate(3000, 12, 10, seed=1)
    made.check("clicks")
    assert made.X.shape == (3000, 4096)
    assert (np.diff(made.X.indptr) == 10).all()
    np.testing.assert_allclose(np.linalg.norm(made.X.toarray(), axis=1), 1, rtol=1e-6)
    again, other = (clicks.generate(3000, 12, 10, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(made.X.indices, again.X.indices)
    np.testing.assert_array_equal(made.y, again.y)
    assert (made.X.indices != other.X.indices).any()
    with pytest.raises(BadInput, match="5 values a row do not fit 4 columns"):
        clicks.generate(10, 2, 5)


def test_a_click_log_has_people_with_several_rows_and_traits_of_their_own() -> None:
    made = clicks.generate(20_000, 14, 12, seed=0)
    assert made.groups is not None
    _, rows = np.unique(made.groups, return_counts=True)
    assert 4 < rows.mean() < 6
    assert rows.max() > 8
    columns = made.X.indices.reshape(-1, 12)
    same = made.groups[1:] == made.groups[:-1]
    assert (columns[1:][same][:, 0] == columns[:-1][same][:, 0]).all()
    assert (columns[1:][same][:, 1] != columns[:-1][same][:, 1]).mean() > 0.2
    assert 0.05 < made.y.mean() < 0.5
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=10, max_iter=1000).fit(made.X, made.y)
    majority = max(made.y_test.mean(), 1 - made.y_test.mean())
    assert model.score(made.X_test, made.y_test) > majority + 0.02


@pytest.mark.slow
def test_a_click_log_is_made_in_bounded_memory() -> None:
    """The CSR arrays and a block of rows: never the dense rows, nor several copies."""
    import tracemalloc

    tracemalloc.start()
    made = clicks.generate(200_000, 18, 20, n_test=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    arrays = sum(part.nbytes for part in (made.X.data, made.X.indices, made.X.indptr))
    assert peak < 1.5 * arrays + 20e6


# Tables


def test_adult_of_the_census_files(data: Path) -> None:
    line = "{}, Private, 1{}, HS-grad, 9, {}, Sales, Husband, White, Male, 0, 0, 40, Peru, {}"
    train = [
        line.format(20 + i, i, "Divorced" if i % 3 else "Widowed", ">50K" if i % 4 else "<=50K")
        for i in range(40)
    ]
    test = [line.format(30 + i, i, "Never-seen", ">50K." if i % 2 else "<=50K.") for i in range(8)]
    (data / "adult.data").write_text("\n".join(train) + "\n\n")
    (data / "adult.test").write_text("|1x3 Cross validator\n" + "\n".join(test) + "\n\n")
    made = prepared.prepare(unchecked(catalog.find("adult")))
    assert (made.n, len(made.y_test)) == (40, 8)
    assert made.X.shape[1] == 6 + 9  # numbers; two kinds of marriage, one of everything else
    np.testing.assert_array_equal(made.y_test, np.arange(8) % 2)
    (data / "adult.data").write_text(train[0].replace(" 9,", " nine,") + "\n")
    with pytest.raises(BadInput, match="column education_num, row 1: 'nine' is not a number"):
        prepared.prepare(unchecked(catalog.find("adult")))


def test_icd_codes_fall_into_chapters() -> None:
    from unfit.data.catalog.entries.diabetes130 import chapters

    codes = np.array(["250.83", "250", "251", "V57", "E909", "?", "8", "139", "140", "999"])
    found = chapters(codes)
    assert found[0] == found[1] != found[2]
    assert found[3:6].tolist() == ["V", "E", "?"]
    assert found[6] == found[7] != found[8]
