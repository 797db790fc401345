"""Products with a few vectors, against NumPy's."""

import numpy as np
import pytest

from unfit.core.kernels import products
from unfit.core.kernels.products import combination, few_products


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 500])
@pytest.mark.parametrize("vectors", [1, 3, 4, 5, 12, 65])
@pytest.mark.parametrize("most", [0, products.MOST])
def test_products_are_those_of_numpy(
    monkeypatch: pytest.MonkeyPatch, dtype: type, rows: int, vectors: int, most: int
) -> None:
    monkeypatch.setattr(products, "MOST", most)
    rng = np.random.default_rng(rows + vectors)
    A, V = rng.standard_normal((rows, 301)).astype(dtype), rng.standard_normal((vectors, 301))
    found = few_products(A, V)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, V @ A.T.astype(np.float64), atol=2000 * np.finfo(dtype).eps)


def test_a_combination_is_summed_in_float64() -> None:
    rng = np.random.default_rng(0)
    scales, rows = rng.standard_normal(40), rng.standard_normal((40, 33)).astype(np.float32)
    np.testing.assert_allclose(combination(scales, rows), scales @ rows, rtol=0, atol=1e-13)
    assert not combination(np.zeros(0), rows[:0]).any()
