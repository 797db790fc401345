"""Usenet posts by newsgroup: news20 as LIBSVM has it, and 20 Newsgroups with its authors."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import sparse

from unfit.data.catalog import formats, scaling, sparse_arrays
from unfit.data.catalog.entry import Entry, File, FileSet, Matrix, Parts, RawArrays, Training

COLUMNS = 1000
SEED = 0
_WIDTH = 62061
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_PIECES = ("data", "indices", "indptr", "shape")
_TERMS = "Usenet posts, no formal licence; word counts only"
_TRAINING = Training(epochs=200, batch_size=512, burn_in=10)


def _read_news20(paths: Mapping[str, Path]) -> RawArrays:
    """The training part alone: a fifth of it is held out, by class."""
    raw = formats.npz(paths["news20_libsvm.npz"], (*_PIECES, "y"))
    return {**raw, "test": scaling.stratified(raw["y"], len(raw["y"]) // 5, SEED)}


def _read_news20_text(paths: Mapping[str, Path]) -> RawArrays:
    train, test = paths.values()
    (X, y), (X_test, y_test) = (formats.libsvm_sparse(p, _WIDTH) for p in (train, test))
    X = sparse.vstack([X, X_test], format="csr")
    held_out = np.arange(X.shape[0]) >= len(y)
    return {
        "data": X.data,
        "indices": X.indices,
        "indptr": X.indptr,
        "shape": np.array(X.shape),
        "y": np.concatenate([y, y_test]),
        "test": held_out,
    }


def _read_newsgroups(paths: Mapping[str, Path]) -> RawArrays:
    path = paths["newsgroups20_counts.npz"]
    raw = formats.npz(path, (*_PIECES, "y", "split", "author"))
    return {**raw, "test": raw["split"] == 1}


def _counts(raw: RawArrays) -> tuple[sparse.csr_array, np.ndarray]:
    """Word counts (posts, words), and which posts are for testing."""
    data, indices, indptr, shape = (raw[piece] for piece in _PIECES)
    with formats.reading("the word counts"):
        counts = sparse_arrays.matrix((data, indices, indptr), (int(shape[0]), int(shape[1])))
    return counts, raw["test"].astype(np.bool_)


def prepare(raw: RawArrays) -> Parts:
    """tf-idf of every word, rows of norm 1, sparse.

    (1 + log tf) log(n / df), n and df counted over the training posts; a word that is in none of
    them counts as one that is in a single post.
    """
    counts, test = _counts(raw)
    df = np.bincount(counts[~test].indices, minlength=counts.shape[1])
    idf = np.log((~test).sum() / np.maximum(df, 1))
    counts.data = ((1 + np.log(counts.data)) * idf[counts.indices]).astype(np.float32)
    X = sparse_arrays.unit_rows(counts)
    return _parts(X[~test], X[test], raw, test)


def prepare_common(raw: RawArrays) -> Parts:
    """The same of the 1,000 words in most training posts, dense."""
    counts, test = _counts(raw)
    df = np.bincount(counts[~test].indices, minlength=counts.shape[1])
    common = np.sort(np.argsort(-df, kind="stable")[:COLUMNS])
    idf = np.log((~test).sum() / np.maximum(df[common], 1))
    chosen = counts[:, common].tocsr()
    chosen.data = 1 + np.log(chosen.data)
    X = np.asarray(chosen.toarray() * idf, np.float32)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    X /= np.where(norms > 0, norms, 1)
    return _parts(X[~test], X[test], raw, test)


def _parts(X: Matrix, X_test: Matrix, raw: RawArrays, test: np.ndarray) -> Parts:
    y = np.unique(raw["y"], return_inverse=True)[1].astype(np.int64)
    groups = raw["author"][~test].astype(np.int64) if "author" in raw else None
    return Parts(X, y[~test], X_test, y[test], groups)


_CITATION = "Lang 1995, NewsWeeder: learning to filter netnews"
_NEWSGROUPS = (
    FileSet(
        (
            File(
                "newsgroups20_counts.npz",
                "sha256:7e8bed8809ed6a5585221f74850858eb9b70012681318410a1eac4b7143af206",
                4950265,
            ),
        ),
        _read_newsgroups,
    ),
)

ENTRIES = (
    Entry(
        name="news20",
        title="news20",
        about="Usenet posts of twenty newsgroups, 62,061 words, sparse.",
        citation=_CITATION,
        terms=_TERMS,
        file_sets=(
            FileSet(
                (
                    File(
                        "news20_libsvm.npz",
                        "sha256:672aaff80b7e9f51d46710e83db562e935f75fdaaf0d9735167eeec5db6564dd",
                        3023768,
                    ),
                ),
                _read_news20,
            ),
            FileSet(
                tuple(File(n, url=_LIBSVM + n) for n in ("news20.bz2", "news20.t.bz2")),
                _read_news20_text,
            ),
        ),
        prepare=prepare,
        training=_TRAINING,
        intercept=True,
        volumes=(0.01, 0.02, 0.04),
        theta=0.045,
        version=2,
        rows=15_935,
    ),
    Entry(
        name="newsgroups",
        title="20 Newsgroups",
        about="Usenet posts of twenty newsgroups with their authors; 53,665 words, sparse.",
        citation=_CITATION,
        terms=_TERMS,
        file_sets=_NEWSGROUPS,
        prepare=prepare,
        training=_TRAINING,
        intercept=True,
        volumes=(0.01, 0.02, 0.035),
        theta=0.04,
    ),
    Entry(
        name="newsgroups20",
        title="20 Newsgroups, 1,000 words",
        about="Usenet posts of twenty newsgroups with their authors; the 1,000 commonest words.",
        citation=_CITATION,
        terms=_TERMS,
        file_sets=_NEWSGROUPS,
        prepare=prepare_common,
        training=_TRAINING,
        intercept=True,
        volumes=(0.01, 0.02, 0.035),
        theta=0.04,
    ),
)
