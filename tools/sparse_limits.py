"""What bounds a product with sparse rows: visits of a click log with less and less to wait for.

python tools/sparse_limits.py [rows] prints nanoseconds a value on one core, gathered and added to a
result, for the columns as they are, for common ones alone, and for as few as the first cache holds.
"""

import sys
import time

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import KERNEL
from unfit.core.kernels.sparse import count_columns
from unfit.data.catalog.entries.clicks import generate

BITS, VALUES = 20, 30
LEVELS = (("all columns", 1 << BITS), ("65,536 columns", 1 << 16), ("1,024 columns", 1 << 10))


@njit(**KERNEL)
def visit(columns: np.ndarray, values: int, table: np.ndarray) -> None:
    """result += x (x.v) of rows of so many ones: nothing but the visits of a product.

    table: as in core.kernels.sparse_pairs, v and the result of a column side by side. Four sums at
    a time, as there.
    """
    step, whole = np.uint64(values), np.uint64(values // 4 * 4)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    for i in range(np.uint64(columns.size // values)):
        at = i * step
        stop, quads = at + step, at + whole
        a = b = c = d = table.dtype.type(0)
        while at < quads:
            a += table[two * np.uint64(columns[at])]
            b += table[two * np.uint64(columns[at + one])]
            c += table[two * np.uint64(columns[at + two])]
            d += table[two * np.uint64(columns[at + three])]
            at += four
        while at < stop:
            a += table[two * np.uint64(columns[at])]
            at += one
        total = (a + b) + (c + d)
        for place in range(i * step, stop):
            table[two * np.uint64(columns[place]) + one] += total


def common_first(indices: np.ndarray, p: int) -> np.ndarray:
    """Indices by the places of their columns, those that most rows have first."""
    counts, places = np.zeros(p, np.int64), np.empty(p, np.int32)
    count_columns(indices, counts)
    places[np.argsort(-counts, kind="stable")] = np.arange(p, dtype=np.int32)
    return np.asarray(places[indices])


def folded(places: np.ndarray, most: int) -> np.ndarray:
    """The same visits among the first columns: those beyond go to one of them."""
    kind = np.uint16 if most <= 1 << 16 else np.int32
    return np.asarray(np.where(places < most, places, places % most).astype(kind))


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
