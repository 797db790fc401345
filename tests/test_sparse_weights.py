"""Sample weights, C and a free intercept with sparse rows; words that only the forgotten used."""

import numpy as np
import pytest
from scipy import sparse

import unfit

OBJECTIVES = [
    {},
    {"C": 0.5},
    {"C": 0.5, "penalize_intercept": False},
    {"penalize_intercept": False},
    {"class_weight": {0: 1.0, 1: 2.5, 2: 0.5}},
]


@pytest.fixture(scope="module")
def weighted() -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = sparse.random_array((400, 60), density=0.1, rng=rng, format="csr")
    D = X.toarray()
    noisy = D @ rng.standard_normal(60) + 0.1 * rng.standard_normal(400)
    return X, (noisy > 0).astype(int) + (D[:, 0] > 0.1), rng.integers(0, 4, 400).astype(float)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize("method", ["fisher", "influence", "newton", "retrain"])
def test_sparse_rows_are_weighted_as_dense_ones(weighted, method, objective) -> None:
    X, y, s = weighted
    gone = np.flatnonzero(s > 0)[:7]
    found = []
    for rows in (X, X.toarray()):
        clf = unfit.LogisticRegression(method, dtype="float64", tol=1e-12, **objective)
        clf.fit(rows, y, s).unlearn(gone)
        found.append(np.column_stack([clf.coef_, clf.intercept_]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-8, atol=1e-8)


def test_a_weight_of_two_is_the_row_twice_and_zero_is_no_row(weighted) -> None:
    X, y, s = weighted
    weighed = unfit.LogisticRegression("retrain", dtype="float64", tol=1e-12).fit(X, y, s)
    places = np.repeat(np.arange(400), s.astype(int))
    repeated = unfit.LogisticRegression("retrain", dtype="float64", tol=1e-12)
    repeated.fit(X[places], y[places])
    np.testing.assert_allclose(weighed.coef_, repeated.coef_, rtol=1e-8, atol=1e-8)
    gone = np.flatnonzero(s > 0)[:5]
    weighed.unlearn(gone)
    repeated.unlearn(np.flatnonzero(np.isin(places, gone)))
    np.testing.assert_allclose(weighed.coef_, repeated.coef_, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", ["fisher", "influence", "newton", "retrain"])
def test_a_column_that_only_the_forgotten_had_has_no_weight(weighted, method) -> None:
    X, y, _ = weighted
    X = X.tolil()
    X[:, 7] = 0.0
    X[[3, 5], 7] = 1.5
    clf = unfit.LogisticRegression(method).fit(X.tocsr(), y)
    assert clf.unlearn([3]).coef_[:, 7].any()
    assert not clf.unlearn([5]).coef_[:, 7].any()


@pytest.mark.parametrize("method", ["fisher", "influence", "newton", "retrain"])
@pytest.mark.parametrize("other", ["a zero that is stored", "a row of weight 0"])
def test_a_column_that_nobody_else_counts_in_has_no_weight(weighted, method, other) -> None:
    X, y, weight = weighted
    X, weight = X.tolil(), np.array(weight, dtype=np.float64)
    X[:, 7] = 0.0
    X[[3, 5], 7] = 1.5
    X = X.tocsr()
    X.sort_indices()
    if other == "a row of weight 0":
        weight[5] = 0.0
    else:
        inside = slice(X.indptr[5], X.indptr[6])
        X.data[inside][X.indices[inside] == 7] = 0.0
        assert (X.data == 0).any()
    weight[3] = 1.0
    clf = unfit.LogisticRegression(method).fit(X, y, sample_weight=weight)
    assert clf.coef_[:, 7].any()
    assert not clf.unlearn([3]).coef_[:, 7].any()
