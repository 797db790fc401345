"""What goes wrong on a cluster: one sentence, the old state or the new one, and it can go on."""

import logging
import pickle
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")

import distributed

import clusters
import unfit
from unfit import disk
from unfit.engines import Dask
from unfit.engines.cluster import tasks
from unfit.engines.cluster.connection import disconnect_all
from unfit.engines.cluster.settings import is_loopback
from unfit.errors import BadInput, Damaged, Unavailable

CANARY = 41.7251


def rows(n=8000, p=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)).astype(np.float32)
    X[7] = CANARY
    return X, (X @ rng.standard_normal(p) + rng.standard_normal(n) > 0).astype(int)


def fitted(engine, method="newton", **options):
    X, y = rows()
    return unfit.LogisticRegression(method, engine=engine, **options).fit(X, y)


def same(one, other):
    assert np.linalg.norm(one.coef_ - other.coef_) <= 1e-8 * np.linalg.norm(other.coef_)


@pytest.mark.parametrize("address", ["tcp://10.1.2.3:8786", "tcp://scheduler:8786"])
def test_plain_addresses_of_other_machines_are_refused(address):
    with pytest.raises(BadInput, match="does not use TLS"):
        Dask(address)
    assert not Dask(address, allow_plaintext=True).local
    assert not Dask(address.replace("tcp", "tls")).local


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1"])
def test_addresses_of_this_machine_need_no_tls(address):
    assert Dask(address).local


@pytest.mark.parametrize(
    "address",
    ["scheduler:8786", "http://x:1", "", "inproc://1", "tcp://[::1", "tcp://127.0.0.1:99999", 8786],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(BadInput, match="is not the address of a Dask scheduler"):
        Dask(address)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"shards": "3"}, "shards must be a whole number of at least 1, got '3'"),
        ({"shards": 2.5}, "shards must be a whole number"),
        ({"shards": 0}, "shards must be a whole number"),
        ({"no_workers_timeout": -1}, "no_workers_timeout must be a positive number"),
        ({"no_workers_timeout": float("nan")}, "no_workers_timeout must be a positive number"),
    ],
)
def test_settings_that_are_refused(settings, sentence):
    with pytest.raises(BadInput, match=sentence):
        Dask("tcp://127.0.0.1:8786", **settings)


def test_the_name_alone_needs_an_address(monkeypatch):
    monkeypatch.delenv("UNFIT_DASK", raising=False)
    with pytest.raises(Unavailable, match="needs the address of a scheduler"):
        fitted("dask")


@pytest.mark.slow
def test_no_scheduler_is_a_sentence():
    with pytest.raises(Unavailable, match="no Dask scheduler answers at tcp://127.0.0.1:9"):
        fitted(Dask("tcp://127.0.0.1:9"))


def test_rows_left_out_by_position_or_by_bit():
    rng = np.random.default_rng(0)
    for share in (0, 0.001, 0.5, 1):
        out = rng.random(1003) < share
        sent = tasks.LeftOut.at(np.flatnonzero(out), len(out))
        np.testing.assert_array_equal(sent.taken_from(np.ones(1003, bool)), ~out)
        np.testing.assert_array_equal(sent.taken_from(out), np.zeros(1003, bool))
        assert sent.array.nbytes <= 1003 / 8 + 1
        assert sent.none() == (not out.any())


def test_what_is_not_sgd_free_is_refused(cluster):
    with pytest.raises(Unavailable, match="engine 'dask' cannot"):
        fitted(cluster.engine(), "deltagrad")
    with pytest.raises(Unavailable, match="engine 'dask' cannot"):
        fitted(cluster.engine(), "fisher", solver="sgd")


def test_the_environment_names_the_cluster(cluster, monkeypatch):
    monkeypatch.setenv("UNFIT_DASK", cluster.address)
    monkeypatch.setenv("UNFIT_ENGINE", "dask")
    assert fitted(None)._data.name == "dask"


def test_the_files_go_with_the_model(cluster, tmp_path):
    model = fitted(cluster.engine(folder=str(tmp_path)))
    (folder,) = tmp_path.iterdir()
    assert np.float32(CANARY).tobytes() in (folder / "X.bin").read_bytes()
    model._data.forget(np.array([7]))
    model._data.erase(np.array([7]))
    assert np.float32(CANARY).tobytes() not in (folder / "X.bin").read_bytes()
    del model
    assert not list(tmp_path.iterdir())


def test_no_row_travels_between_workers(cluster):
    data = fitted(cluster.engine(shards=1))._data
    shard = replace(data._shards._template, start=0, stop=len(data))
    nobody = tasks.LeftOut.at(np.zeros(0, int), len(data))
    loaded = tasks.Loaded(shard, 0, nobody)
    evaluated = tasks.evaluate([loaded], [nobody], [0], W=np.zeros((1, data.d)))[0]
    for made in (loaded, evaluated):
        sent = pickle.dumps(made)
        assert len(sent) < 4096 < sys.getsizeof(made)
        assert np.float32(CANARY).tobytes() not in sent
        assert type(pickle.loads(sent)) is type(made)


def test_a_task_of_another_epoch_is_refused(cluster):
    data = fitted(cluster.engine(shards=1))._data
    shard = replace(data._shards._template, start=0, stop=len(data))
    nobody = tasks.LeftOut.at(np.zeros(0, int), len(data))
    loaded = tasks.Loaded(shard, 3, nobody)
    with pytest.raises(Unavailable, match="was mapped before rows were forgotten"):
        tasks.summed([loaded], [nobody], [4], what=tasks.gram)


def test_whoever_is_erased_in_the_file_is_left_out_by_every_load(cluster):
    data = fitted(cluster.engine(shards=1))._data
    shard = replace(data._shards._template, start=0, stop=len(data))
    nobody = tasks.LeftOut.at(np.zeros(0, int), len(data))
    before = tasks.Loaded(shard, 0, nobody)
    data.files.zero(np.array([7]))
    assert tasks.load(shard, 0, nobody).n == len(data) - 1  # of a stale epoch, too
    with pytest.raises(Unavailable, match="were purged while they were read"):
        tasks.summed([before], [nobody], [0], what=tasks.gram)


def test_a_row_is_not_live_before_its_values_are_zeroed(cluster, monkeypatch):
    """A pass that ends at any moment of it has seen the row, or says that it has not."""
    data = fitted(cluster.engine(shards=1))._data
    shard = replace(data._shards._template, start=0, stop=len(data))
    nobody, zero_rows, seen = tasks.LeftOut.at(np.zeros(0, int), len(data)), disk.zero_rows, []
    before = tasks.Loaded(shard, 0, nobody)

    def zeroed(path, row_bytes, positions):
        zero_rows(path, row_bytes, positions)
        with pytest.raises(Unavailable, match="were purged while they were read"):
            tasks.summed([before], [nobody], [0], what=tasks.gram)
        seen.append(path.name)

    monkeypatch.setattr(disk, "zero_rows", zeroed)
    data.files.zero(np.array([7]))
    assert sorted(seen) == ["X.bin", "labels.bin", "live.bin"]


def test_another_version_is_refused(cluster):
    data = fitted(cluster.engine(shards=1))._data
    shard = replace(data._shards._template, stop=len(data), version="0.0.0")
    nobody = tasks.LeftOut.at(np.zeros(0, int), len(data))
    with pytest.raises(Unavailable, match=r"and this process has 0\.0\.0; install the same"):
        tasks.load(shard, 0, nobody)


def test_a_file_that_comes_back_is_mapped_again(cluster, tmp_path):
    model = fitted(cluster.engine(folder=str(tmp_path)))
    (folder,) = tmp_path.iterdir()
    model.unlearn([3])
    (folder / "live.bin").rename(tmp_path / "away")
    with pytest.raises(Damaged, match=r"live\.bin is missing"):
        model.unlearn([7])
    assert model.n_remaining_ == 7999
    (tmp_path / "away").rename(folder / "live.bin")
    X, y = rows()
    same(model.unlearn([7]), unfit.LogisticRegression("newton").fit(X, y).unlearn([3, 7]))


@pytest.mark.parametrize("seed", range(3))
def test_workers_killed_at_random_moments(cluster, seed):
    X, y = rows()
    expected = unfit.LogisticRegression("newton").fit(X, y)
    rng, stop = np.random.default_rng(seed), threading.Event()

    def kill():
        while not stop.wait(rng.uniform(0.02, 0.5)):
            cluster.kill(int(rng.integers(2)))
            stop.wait(1.5)  # more often than a worker starts would leave none

    model = unfit.LogisticRegression("newton", engine=cluster.engine())
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        model.fit(X, y)
        same(model, expected)
        for gone in ([7], [100, 200], list(range(300, 400))):
            same(model.unlearn(gone), expected.unlearn(gone))
    finally:
        stop.set()
        killer.join()


@pytest.mark.slow
def test_a_scheduler_that_goes_away_and_comes_back(tmp_path):
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with clusters.local(tmp_path / "one", n_workers=1) as running:
        engine, port = running.engine(), running.address.rsplit(":", 1)[1]
        model = fitted(engine)
        before = model.coef_.copy()
    with pytest.raises(Unavailable, match="no Dask scheduler answers|went away"):
        model.unlearn([7])
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_remaining_ == 8000
    with clusters.local(tmp_path / "two", n_workers=1, port=int(port)):
        model.unlearn([7])
        X, y = rows()
        same(model, unfit.LogisticRegression("newton").fit(X, y).unlearn([7]))


@pytest.mark.slow
def test_workers_that_spill_are_refused(tmp_path):
    spilling = {"distributed.worker.memory.target": 0.6}
    refused = pytest.raises(Unavailable, match=r"memory\.target.*no purge finds it")
    with clusters.local(tmp_path, n_workers=1, config=spilling) as running, refused:
        fitted(running.engine())


@pytest.mark.slow
def test_a_cluster_without_workers_is_given_up(tmp_path):
    refused = pytest.raises(Unavailable, match="has had no worker for 1 seconds")
    with clusters.local(tmp_path, n_workers=0) as running, refused:
        fitted(running.engine(no_workers_timeout=1.0))


@pytest.mark.slow
def test_workers_that_all_die_are_waited_for_and_then_given_up(tmp_path):
    with clusters.local(tmp_path, n_workers=1) as running:
        model = fitted(running.engine(no_workers_timeout=1.0))
        before = model.coef_.copy()
        running.cluster.scale(0)
        while running.cluster.scheduler.workers:
            time.sleep(0.05)
        with pytest.raises(Unavailable, match="has had no worker for 1 seconds"):
            model.unlearn([7])
        np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.slow
def test_a_cluster_that_listens_on_the_network_is_refused_without_tls(tmp_path):
    """Although its address is one of this machine: workers elsewhere could be sent rows."""
    with clusters.scheduler(tmp_path, "--host", "0.0.0.0") as address:
        port = address.rsplit(":", 1)[1]
        if is_loopback(address):
            pytest.skip("this machine has no address but that of itself")
        with pytest.raises(Unavailable, match="does not use TLS"):
            fitted(Dask(f"tcp://127.0.0.1:{port}"))
        disconnect_all()


def test_a_worker_elsewhere_is_refused_when_it_comes(cluster, monkeypatch):
    model = fitted(cluster.engine(no_workers_timeout=55.0))
    monkeypatch.setattr(distributed.Client, "nthreads", lambda self: {"tcp://192.0.2.7:4000": 1})
    with pytest.raises(Unavailable, match=r"tcp://192\.0\.2\.7:4000 belongs to the cluster"):
        model._data.gradient_sum(np.zeros((1, 11)))


@pytest.mark.slow
def test_a_scheduler_with_another_unfit_is_named(tmp_path):
    inside = tmp_path / "other" / "unfit" / "engines" / "cluster"
    inside.mkdir(parents=True)
    for folder in (inside, inside.parent, inside.parent.parent):
        (folder / "__init__.py").touch()
    (inside.parent.parent / "__init__.py").write_text('__version__ = "0.0.1"\n')
    (inside / "tasks.py").touch()  # without `facts`
    other = {"PYTHONPATH": str(tmp_path / "other")}
    refused = pytest.raises(Unavailable, match=r"the scheduler has unfit 0\.0\.1 and this process")
    with clusters.scheduler(tmp_path, environment=other) as address, refused:
        fitted(Dask(address))
    disconnect_all()


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (KeyError("plan"), r"a worker failed \(KeyError: 'plan'\)"),
        (ZeroDivisionError("by zero"), r"a worker failed \(ZeroDivisionError: by zero\)"),
        (PermissionError(13, "Permission denied", "rows"), "a worker cannot read or write a file"),
    ],
    ids=["key", "zero", "file"],
)
def test_what_fails_on_a_worker_is_not_told_of_the_scheduler(cluster, failure, sentence):
    def fails(block):
        raise failure

    data = fitted(cluster.engine())._data
    with pytest.raises(Unavailable, match=sentence) as raised:
        data.of_blocks(fails)
    assert type(raised.value.__cause__) is type(failure)
    data.gradient_sum(np.zeros((1, data.d)))  # over the same connection


@pytest.mark.slow
def test_a_worker_without_unfit_is_named(tmp_path):
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "unfit.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'unfit'\")\n"
    )
    away = {"PYTHONPATH": str(tmp_path / "without")}
    refused = pytest.raises(Unavailable, match=r"the worker tcp://.* install unfit\[cluster\]")
    with (
        clusters.local(tmp_path / "scheduler", n_workers=0) as running,
        clusters.worker(running, tmp_path, away),
        refused,
    ):
        fitted(running.engine())


def test_folders_that_workers_cannot_see_are_asked_for():
    from unfit.engines.cluster.engine import new_folder

    with pytest.raises(Unavailable, match="name a folder that all of them see"):
        new_folder(Dask("tls://scheduler:8786"))
    with pytest.raises(Unavailable, match="is not there; make it first"):
        new_folder(Dask("tls://scheduler:8786", folder=str(Path("/nowhere/at/all"))))
