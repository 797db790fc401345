"""What bounds a product with sparse rows: visits of a click log with less and less to wait for.

python tools/sparse_limits.py [rows] prints nanoseconds a value on one core, gathered and added to a
result, for the columns as they are, for common ones alone, and for as few as the first cache holds.
"""

import sys
import time

import numpy as np
from numba import njit

from unfit.core.kernels.pairs_of_columns import add_alike, sum_of_columns
from unfit.core.kernels.parallel import KERNEL
from unfit.core.kernels.sparse import count_columns
from unfit.data.catalog.entries.clicks import generate

BITS, VALUES = 20, 30
LEVELS = (("all columns", 1 << BITS), ("65,536 columns", 1 << 16), ("1,024 columns", 1 << 10))


@njit(**KERNEL)
def visit(columns: np.ndarray, values: int, table: np.ndarray) -> None:
    """result += x (x.v) of rows of so many ones: nothing but the visits of a product.

    table: as in core.kernels.sparse_pairs, v and the result of a column side by side.
    """
    step = np.uint64(values)
    for i in range(np.uint64(columns.size // values)):
        start, stop = i * step, (i + np.uint64(1)) * step
        add_alike(columns, start, stop, sum_of_columns(columns, start, stop, table), table)


def common_first(indices: np.ndarray, p: int) -> np.ndarray:
    """Indices by the places of their columns, those that most rows have first."""
    counts, places = np.zeros(p, np.int64), np.empty(p, np.int32)
    count_columns(indices, counts)
    places[np.argsort(-counts, kind="stable")] = np.arange(p, dtype=np.int32)
    return np.asarray(places[indices])


def folded(places: np.ndarray, most: int) -> np.ndarray:
    """The same visits among the first columns, as kernels.pairs_of_columns wants them: those beyond
    go to one of them."""
    short = most <= 1 << 16
    inside = np.where(places < most, places, places % most)
    return inside.astype(np.uint16) if short else (2 * inside).astype(np.uint32)


def nanoseconds(columns: np.ndarray, values: int, table: np.ndarray, times: int = 5) -> float:
    """Of one value, the best of several goes."""
    visit(columns[:values], values, table)
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        visit(columns, values, table)
        taken.append(time.perf_counter() - start)
    return 1e9 * min(taken) / columns.size


def main(n: int) -> None:
    places = common_first(generate(n, BITS, VALUES, n_test=1).X.indices, 1 << BITS)
    for name, most in LEVELS:
        share = np.count_nonzero(places < most) / places.size
        columns = folded(places, most)
        tables = (np.zeros(2 << BITS, dtype) for dtype in (np.float64, np.float32))
        double, single = (nanoseconds(columns, VALUES, table) for table in tables)
        print(
            f"{name}: {double:.3g} ns a value in float64, {single:.3g} in float32; "
            f"they have {100 * share:.3g} % of the values"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
