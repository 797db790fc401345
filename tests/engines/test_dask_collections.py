"""Rows that are a Dask collection: workers write and check them, and nothing is left behind."""

import errno
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")

import dask
from services import until

import clusters
import unfit
from unfit import disk
from unfit.engines.cluster import collections
from unfit.errors import BadInput, Unavailable


def rows(n=6000, p=12):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)).astype(np.float32)
    return X, (X @ rng.standard_normal(p) + rng.standard_normal(n) > 0).astype(int)


def same(one, other):
    assert np.linalg.norm(one.coef_ - other.coef_) <= 1e-8 * np.linalg.norm(other.coef_)


def collection(X, sizes=(1700, 1300, 3000)):
    """Rows as a Dask array of blocks of so many rows."""
    return pytest.importorskip("dask.array").from_array(X, chunks=(sizes, X.shape[1]))


class StopsOnce:
    """A block that stops the process of the worker that is about to write it; but not again."""

    def __init__(self, rows, told):
        self.rows, self.told = rows, told

    def __array__(self, dtype=None, copy=None):
        if not self.told.exists():
            self.told.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return np.asarray(self.rows, dtype)


@pytest.mark.slow
def test_a_worker_given_up_for_dead_writes_nothing_when_it_wakes(tmp_path):
    array = pytest.importorskip("dask.array")
    X, y = rows()
    canary = X[3].tobytes()
    place, told = tmp_path / "rows", tmp_path / "told"
    place.mkdir()
    few = {"distributed.scheduler.worker-ttl": "8 s"}
    with (
        clusters.local(tmp_path / "cluster", n_workers=0, config=few) as running,
        clusters.worker(running, tmp_path) as one,
        clusters.worker(running, tmp_path) as other,
    ):
        until(lambda: len(running.cluster.scheduler.workers) == 2)
        parts = dask.delayed(StopsOnce)(X[:3000], told), dask.delayed(X[3000:])
        blocks = [array.from_delayed(one, (3000, 12), X.dtype) for one in parts]
        model = unfit.LogisticRegression("newton", engine=running.engine(folder=str(place)))
        model.fit(array.concatenate(blocks), y)
        (folder,) = place.iterdir()
        assert canary in (folder / "X.bin").read_bytes()
        model._data.forget(np.array([3]))
        model._data.erase(np.array([3]))
        (stopped,) = [each for each in (one, other) if each.pid == int(told.read_text())]
        stopped.send_signal(signal.SIGCONT)
        stopped.wait()  # it writes its block, and goes: the scheduler does not know it any more
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert len(files) == 4
        assert not any(canary in path.read_bytes() for path in files)
        del model


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda X, y: (X, y[:-1], None), "X has 6,000 rows but y has 5,999"),
        (lambda X, y: (X, 0 * y, None), "y holds one class only"),
        (lambda X, y: (X, np.where(y > 0, np.nan, 0.0), None), "NaN"),
        (lambda X, y: (X, y, np.full(6000, np.nan)), "must be finite"),
        (lambda X, y: (X[:0], y[:0], None), "y has 0 labels; a classifier needs at least 2 rows"),
    ],
    ids=["length", "class", "nan", "weight", "empty"],
)
def test_nothing_is_left_of_a_fit_that_was_refused(cluster, tmp_path, wrong, sentence):
    X, y = rows()
    given, labels, weight = wrong(collection(X), y)
    model = unfit.LogisticRegression(engine=cluster.engine(folder=str(tmp_path)))
    with pytest.raises(ValueError, match=sentence):
        model.fit(given, labels, weight)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [np.asarray, collection], ids=["array", "collection"])
def test_nothing_is_left_when_the_disk_is_full(cluster, tmp_path, monkeypatch, given):
    X, y = rows()

    def full(self, block):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk.ArrayWriter, "append", full)
    model = unfit.LogisticRegression(engine=cluster.engine(folder=str(tmp_path)))
    with pytest.raises(OSError, match="No space left"):
        model.fit(given(X), y)
    assert not list(tmp_path.iterdir())


def test_blocks_that_are_not_as_described_are_refused(cluster, tmp_path):
    array = pytest.importorskip("dask.array")
    X, y = rows()
    given = array.from_delayed(dask.delayed(lambda: X[:10])(), (6000, 12), X.dtype)
    model = unfit.LogisticRegression(engine=cluster.engine(folder=str(tmp_path)))
    with pytest.raises(BadInput, match=r"row 0 has the shape \(10, 12\) instead of \(6000, 12\)"):
        model.fit(given, y)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("frame", [False, True], ids=["array", "data frame"])
def test_blocks_are_counted_where_they_are(cluster, tmp_path, frame):
    X, y = rows()
    here = os.getpid()

    def elsewhere(block):
        assert os.getpid() != here or len(block) < 2  # Dask looks at what an empty block becomes
        return block[block[:, 0] > 0]

    given = collection(X).map_blocks(elsewhere, dtype=X.dtype)
    given._chunks = ((np.nan,) * 3, (12,))
    if frame:
        given = pytest.importorskip("dask.dataframe").from_dask_array(given)
    ours = unfit.LogisticRegression("newton", engine=cluster.engine(folder=str(tmp_path)))
    kept = X[:, 0] > 0
    theirs = unfit.LogisticRegression("newton").fit(X[kept], y[kept])
    same(ours.fit(given, y[kept]), theirs)


def test_whoever_writes_rows_may_not_spill(tmp_path):
    job = collections._Writing(parts=tmp_path, dtype="<f4", version=unfit.__version__)
    X = np.ones((5, 3), np.float32)
    spills = {"distributed.worker.memory.target": 0.6, "distributed.worker.memory.spill": False}
    with (
        dask.config.set(spills),
        pytest.raises(Unavailable, match="may write what it has"),
    ):
        collections._write_block(X, job, 0, (5, 3))
    other = replace(job, version="0.0.0")
    with dask.config.set(clusters.CONFIGURATION), pytest.raises(Unavailable, match="same version"):
        collections._write_block(X, other, 0, (5, 3))
    assert not list(tmp_path.iterdir())
