"""Shards lie evenly over a cluster, and only those whose rows leave are mapped anew."""

import threading
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")

import unfit
from unfit.engines.cluster.shards import spread
from unfit.errors import Unavailable


def counts(homes):
    return {name: list(homes.values()).count(name) for name in set(homes.values())}


@pytest.mark.parametrize("shards", [1, 2, 5, 6, 7, 48])
def test_every_thread_has_as_many(shards):
    threads = {"b": 4, "a": 1, "c": 3}
    found = counts(spread(shards, threads, {}))
    for name, count in found.items():
        assert abs(count - shards * threads[name] / 8) < 1
    assert sum(found.values()) == shards


def test_who_has_a_shard_keeps_it():
    before = spread(6, {"a": 1, "b": 1}, {})
    assert spread(6, {"a": 1, "b": 1}, before) == before
    after = spread(6, {"b": 1, "c": 1}, before)  # c has come in the place of a
    assert counts(after) == {"b": 3, "c": 3}
    assert all(after[i] == "b" for i in range(6) if before[i] == "b")
    alone = spread(6, {"b": 1}, before)
    assert counts(alone) == {"b": 6}
    again = spread(6, {"b": 1, "c": 1}, alone)
    assert counts(again) == {"b": 3, "c": 3}


def test_without_workers_nobody_has_a_home():
    assert spread(6, {}, {0: "a"}) == {}
    assert spread(6, {"a": 0}, {}) == {}


def fitted(cluster, **settings):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8000, 10)).astype(np.float32)
    y = (X @ rng.standard_normal(10) + rng.standard_normal(8000) > 0).astype(int)
    return unfit.LogisticRegression("newton", engine=cluster.engine(**settings)).fit(X, y)


def test_both_workers_map_as_many(cluster):
    data = fitted(cluster, shards=8)._data
    W = np.zeros((1, data.d))
    products = data.value_gradient_products(W)[2]
    for _ in range(3):
        data.gradient_sum(W)
        data.hessian_sum(W)
        products(np.array([0]), W)
    shards = data._shards
    places = shards.cluster.client().who_has(list(shards.mapped()))
    assert all(len(where) == 1 for where in places.values())  # nothing was handed over
    assert sorted(counts({k: w[0] for k, w in places.items()}).values()) == [4, 4]


def test_what_was_evaluated_goes_with_the_rows_that_leave(cluster):
    data = fitted(cluster, shards=4)._data
    W, V = np.full((1, data.d), 0.1), np.ones((1, data.d))
    products = data.value_gradient_products(W)[2]
    before = products(np.array([0]), V)
    data.forget(np.array([5, 7999]))
    assert all(one.done is None for one in data._shards._evaluations)
    after = products(np.array([0]), V)  # made again, without them
    expected = np.einsum("kde,ke->kd", data.hessian_sum(W), V)
    np.testing.assert_allclose(after, expected, rtol=1e-5)
    assert np.linalg.norm(after - before) > 0


def test_only_the_shards_of_the_forgotten_are_mapped_anew(cluster):
    data = fitted(cluster, shards=8)._data
    W = np.zeros((1, data.d))
    data.gradient_sum(W)
    before = data.shards_mapped
    data.gradient_sum(W)
    assert data.shards_mapped == before
    data.forget(np.array([5, 900, 7999]))  # of the first and of the last shard
    data.gradient_sum(W)
    assert data.shards_mapped == before + 2
    data.erase(np.array([5]))
    data.gradient_sum(W)
    assert data.shards_mapped == before + 3


def test_labels_that_are_class_codes_stay_in_the_file(cluster, tmp_path):
    data = fitted(cluster, folder=str(tmp_path))._data
    rows = [data.files.rows(0, 8000, True, data.loss, in_place=one) for one in (False, True)]
    np.testing.assert_array_equal(rows[0].codes, rows[1].codes)
    assert rows[0].codes.flags.owndata
    assert not rows[1].codes.flags.owndata
    other = replace(data.files, class_of_label=(1, 0))
    swapped = other.rows(0, 8000, True, data.loss, in_place=True).codes
    np.testing.assert_array_equal(swapped, 1 - rows[0].codes)


def test_a_copy_is_refused_once_rows_have_left(cluster):
    data = fitted(cluster, shards=4)._data
    W, V = np.full((1, data.d), 0.1), np.ones((1, data.d))
    copy = data.copied()
    products = copy.value_gradient_products(W)[2]
    products(np.array([0]), V)
    data.forget(np.array([5, 7999]))
    for asked in (
        lambda: products(np.array([0]), V),
        lambda: copy.value_gradient_sum(W),
        lambda: copy.shared().hessian_sum(W),
        lambda: copy.value_gradient_products(W),
        lambda: copy.take(np.array([5])),
    ):
        with pytest.raises(Unavailable, match="rows were forgotten while this worked with them"):
            asked()
    data.copied().gradient_sum(W)  # of those that remain
    data.gradient_sum(W)


def test_rows_leave_while_a_copy_is_summed_over(cluster):
    """Whatever comes in between, a pass is right or refused, and the other engine goes on."""
    data = fitted(cluster, shards=8)._data
    W, V, stop = np.full((1, data.d), 0.1), np.ones((1, data.d)), threading.Event()
    said = []

    def read():
        while not stop.is_set():
            copy = data.copied()
            try:
                copy.value_gradient_products(W)[2](np.array([0]), V)
            except Unavailable as error:
                said.append(str(error))
            except Exception as error:  # of a thread, which nobody else would see
                said.append(f"{type(error).__name__}: {error}")
                return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for row in range(40):
            data.forget(np.array([row, 7000 + row]))
            data.gradient_sum(W)
    finally:
        stop.set()
        reader.join()
    assert all(one.endswith("run it again") for one in said), said
    expected = data.beside(data.take(np.flatnonzero(data.remaining)))
    np.testing.assert_allclose(data.gradient_sum(W), expected.gradient_sum(W), rtol=1e-9)
