"""The engine "dask" on two worker processes: the contract, and the same weights as one process."""

import numpy as np
import pytest
from scipy import sparse

import unfit
from unfit.core.losses import LOSSES
from unfit.engines.cluster.masks import FewMask
from unfit.errors import BadInput
from unfit.testing import Case, check_engine

EXACT = 1e-8  # relative, between engines


def rows(classes=2, kind="dense", n=6000, p=12, dtype="float64", seed=0):
    """Rows and labels; two numbers in three are 0 where they are sparse."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, p)) / np.sqrt(p)).astype(dtype)
    if kind == "sparse":
        X *= rng.random(X.shape) < 1 / 3
    scores = X @ rng.standard_normal((p, classes)) + 0.3 * rng.standard_normal((n, classes))
    return (sparse.csr_array(X) if kind == "sparse" else X), scores.argmax(axis=1)


def same(one, other, tolerance=EXACT):
    weights = [np.column_stack([m.coef_, m.intercept_]) for m in (one, other)]
    assert np.linalg.norm(weights[0] - weights[1]) <= tolerance * np.linalg.norm(weights[1])


def test_contract(cluster):
    check_engine(cluster.engine())


def test_contract_of_sparse_rows(cluster):
    make = cluster.engine()

    class Sparse:
        takes_sparse = True

        def __call__(self, rows, n_classes):
            return make(rows, n_classes)

    check_engine(Sparse())


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(cluster, loss):
    check_engine(cluster.engine(shards=4), [Case("float64", 3, LOSSES[loss]())])


@pytest.mark.parametrize("epsilon", [None, 1.0], ids=["plain", "certified"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("method", ["fisher", "influence", "newton", "retrain"])
def test_weights_are_those_of_one_process(cluster, method, kind, epsilon):
    X, y = rows(kind=kind, classes=3)
    gone = [5, 17, 3000, 5999]
    models = []
    for engine in (cluster.engine(shards=5), None):
        model = unfit.LogisticRegression(
            method, engine=engine, dtype="float64", tol=1e-11, epsilon=epsilon
        )
        models.append(model.fit(X, y).unlearn(gone).unlearn([8]))
    if epsilon is None:
        same(*models)
        return
    centres = [model._state.centre for model in models]
    assert np.linalg.norm(centres[0] - centres[1]) <= EXACT * np.linalg.norm(centres[1])
    ours, theirs = (model.certificate_ for model in models)
    assert (ours.rows, ours.deleted, ours.bound) == (theirs.rows, theirs.deleted, theirs.bound)
    assert ours.mu == pytest.approx(theirs.mu, rel=1e-6)


def test_a_few_rows_are_summed_over_without_a_mask_of_all(cluster):
    X, y = rows()
    data = unfit.LogisticRegression("newton", engine=cluster.engine(shards=3)).fit(X, y)._data
    few = np.array([2, 17, 5900])
    W = np.full((1, data.d), 0.1)
    mask = FewMask(len(data), few, inside=True)
    found, expected = data.value_gradient_sum(W, mask), data.beside(data.take(few))
    for one, other in zip(found, expected.value_gradient_sum(W), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert all(out.packed for out in data._shards.left_out(mask))


@pytest.mark.parametrize("frame", [False, True], ids=["array", "data frame"])
def test_a_dask_collection_never_comes_here(cluster, tmp_path, frame):
    array = pytest.importorskip("dask.array")
    X, y = rows(dtype="float32")
    given = array.from_array(X, chunks=(1700, 5))
    if frame:
        given = pytest.importorskip("dask.dataframe").from_dask_array(
            given, columns=[f"c{j}" for j in range(12)]
        )
    engine = cluster.engine(folder=str(tmp_path))
    ours = unfit.LogisticRegression("newton", engine=engine).fit(given, y)
    theirs = unfit.LogisticRegression("newton").fit(X, y)
    assert ours.n_features_in_ == 12
    assert not ours._data.codes.flags.owndata  # nor do their labels
    assert hasattr(ours, "feature_names_in_") == frame
    same(ours.unlearn([5, 4000]), theirs.unlearn([5, 4000]))
    np.testing.assert_array_equal(ours._data.take(np.array([3, 5999])).X, X[[3, 5999]])
    del ours
    assert not list(tmp_path.iterdir())


def test_a_collection_with_a_gap_is_refused_and_leaves_no_file(cluster, tmp_path):
    array = pytest.importorskip("dask.array")
    X, y = rows(dtype="float32")
    X[4242, 3] = np.nan
    model = unfit.LogisticRegression(engine=cluster.engine(folder=str(tmp_path)))
    with pytest.raises(BadInput, match="row 4242 of X holds a value that is not a finite number"):
        model.fit(array.from_array(X, chunks=(1000, 12)), y)
    assert not list(tmp_path.iterdir())
