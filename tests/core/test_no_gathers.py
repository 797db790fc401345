"""Numbers that lie side by side are loaded as vectors: seen in the compiled code of the kernels.

Where numba asks of a signed index whether it counts from the end, the compiler cannot know that the
numbers are neighbours, and gathers them one by one. DELTAGRAD took a tenth longer by that.
"""

import numpy as np
import pytest
from numba import njit

from unfit.core.kernels import downdate, products, rows, sums
from unfit.core.kernels.parallel import KERNEL
from unfit.core.losses import LOGISTIC

pytestmark = pytest.mark.slow


def compiled(kernel, arguments):
    """The machine code for arguments like these."""
    anew = njit(**{**KERNEL, "cache": False})(kernel.py_func)
    anew(*arguments)
    return next(iter(anew.inspect_asm().values()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows_are_never_gathered(dtype):
    X, codes, slots = np.ones((9, 16), dtype), np.zeros(9, np.int32), np.arange(9, dtype=np.int32)
    w, short = np.ones(16, dtype), np.zeros(rows.BLOCK, dtype)
    taken = (
        X.ravel(), 16, codes, slots, rows.Span(0, 9, -1), LOGISTIC.compiled, 1, w, w.copy(),
        short, short.copy(),
    )  # fmt: skip
    assert "gather" not in compiled(rows.add_gradient, taken)
    of_products = (X, X[:3].copy(), np.zeros((3, 9), dtype), 0, 9)
    assert "gather" not in compiled(products.fill_products, of_products)


def test_nor_are_the_terms_of_a_pass_and_of_a_downdate():
    X, V = np.ones((9, 16), np.float32), np.ones((1, 16))
    arrays, totals = (X, np.zeros(9, np.int32), False), (np.zeros(1), V.copy(), np.zeros((0, 0)))
    everyone = np.zeros(0, np.bool_), 0, 9
    problems = np.array([1], np.int32), V
    taken = arrays, LOGISTIC.compiled, problems, everyone, totals, np.zeros(0)
    assert "gather" not in compiled(sums.add_value_gradient, taken)
    assert "gather" not in compiled(downdate._dots, (V, 1, V[0], np.zeros(1)))
