"""Products with sparse rows and with their transpose, in float64.

For several vectors both are the same loop: every row of the result is a sum of scaled rows of a
table, gathered where the indices say. X V gathers rows of V (one per column), X^T U gathers rows of
U (one per row) with the indices of the transpose. So no thread adds to what another one adds to.
Tables hold the numbers of all vectors side by side, padded to whole vector registers: a gathered
row is one or a few cache lines.

For one vector a thread can do with the rows alone: see kernels.sparse_pairs.

Indices are unsigned where numba compiles them: it looks whether a signed one counts from the end,
which costs as much as all the rest.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, curvature, slope, value
from unfit.core.kernels.parallel import KERNEL, VECTOR
from unfit.core.kernels.simd import (
    weighted1,
    weighted2,
    weighted3,
    weighted4,
    weighted5,
    weighted6,
)

LANES = VECTOR // 8
_MOST = 6 * LANES  # numbers that are summed in registers at a time

Compressed = tuple[np.ndarray, np.ndarray, np.ndarray]  # indptr, indices, data
Share = tuple[int, int]  # rows that one thread makes: from, to


def padded(vectors: int) -> int:
    """Numbers in a row of a table of so many vectors; a single one lies alone."""
    return vectors if vectors == 1 else -(-vectors // LANES) * LANES


@njit(**KERNEL)
def _gather(
    numbers: tuple[np.ndarray, np.ndarray],
    start: int,
    stop: int,
    table: tuple[np.ndarray, int],
    out: np.ndarray,
    place: int,
) -> None:
    """out[place : place + width] = the sum of scaled rows of a table: flat numbers and width."""
    flat, width = table
    if width == 1:
        indices, values = numbers
        total = 0.0
        for i in range(np.uint64(start), np.uint64(stop)):
            total += np.float64(values[i]) * flat[np.uint64(indices[i])]
        out[place] = total
        return
    column = 0
    while column < width:
        left = min(width - column, _MOST) // LANES
        at = place + column
        if left == 1:
            weighted1(numbers, start, stop, flat, width, column, out, at)
        elif left == 2:
            weighted2(numbers, start, stop, flat, width, column, out, at)
        elif left == 3:
            weighted3(numbers, start, stop, flat, width, column, out, at)
        elif left == 4:
            weighted4(numbers, start, stop, flat, width, column, out, at)
        elif left == 5:
            weighted5(numbers, start, stop, flat, width, column, out, at)
        else:
            weighted6(numbers, start, stop, flat, width, column, out, at)
        column += left * LANES


@njit(**KERNEL)
def gather_rows(matrix: Compressed, table: np.ndarray, out: np.ndarray, share: Share) -> None:
    """out[i] = sum of x_ij table[j] for the rows i of a share; both (.., width)."""
    indptr, indices, data = matrix
    width = table.shape[1]
    flat, target = table.reshape(table.size), out.reshape(out.size)
    for i in range(share[0], share[1]):
        _gather((indices, data), indptr[i], indptr[i + 1], (flat, width), target, i * width)


@njit(**KERNEL)
def margins_and_losses(
    matrix: Compressed,
    labels: tuple[np.ndarray, np.ndarray],
    loss: CompiledLoss,
    problems: tuple[np.ndarray, np.ndarray, bool],
    totals: tuple[np.ndarray, np.ndarray, np.ndarray],
    share: Share,
) -> None:
    """Values, slopes and curvatures of the rows of a share.

    labels: codes (n,), and weights (n,) of the rows, or an empty array where all weigh 1; a weight
    of 0 leaves a row out. problems: for each the class with target 1; W as a table (d, width), the
    intercept's weights in its last row; whether there is an intercept. totals: values (k,), which
    are added to, slopes (n, width) and curvatures (n, k), which are written.
    """
    indptr, indices, data = matrix
    codes, weights = labels
    positive, table, intercept = problems
    values, slopes, curvatures = totals
    k, width, last = positive.size, table.shape[1], table.shape[0] - 1
    flat, target = table.reshape(table.size), slopes.reshape(slopes.size)
    for i in range(share[0], share[1]):
        weight = weights[i] if weights.size else 1.0
        if weight == 0.0:
            slopes[i, :] = 0.0
            curvatures[i, :] = 0.0
            continue
        _gather((indices, data), indptr[i], indptr[i + 1], (flat, width), target, i * width)
        for c in range(k):
            m = slopes[i, c] + (table[last, c] if intercept else 0.0)
            t = 1.0 if codes[i] == positive[c] else 0.0
            values[c] += weight * value(loss, m, t)
            slopes[i, c] = weight * slope(loss, m, t)
            curvatures[i, c] = weight * curvature(loss, m, t)


@njit(**KERNEL)
def weighted_margins(
    matrix: Compressed,
    weights: tuple[np.ndarray, np.ndarray],
    table: np.ndarray,
    intercept: bool,
    out: np.ndarray,
    share: Share,
) -> None:
    """out[i, c] = weight x_i.v_c for the rows of a share; out (n, width).

    weights: curvatures (n, k), and the problem (j,) whose curvatures each vector is weighted by.
    """
    indptr, indices, data = matrix
    curvatures, problems = weights
    width, last = table.shape[1], table.shape[0] - 1
    flat, target = table.reshape(table.size), out.reshape(out.size)
    for i in range(share[0], share[1]):
        _gather((indices, data), indptr[i], indptr[i + 1], (flat, width), target, i * width)
        for c in range(problems.size):
            m = out[i, c] + (table[last, c] if intercept else 0.0)
            out[i, c] = curvatures[i, problems[c]] * m


@njit(**KERNEL)
def add_squares(indptr: np.ndarray, data: np.ndarray, out: np.ndarray) -> None:
    """out[i] += |x_i|^2."""
    for i in range(out.size):
        total = 0.0
        for at in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[at]) * np.float64(data[at])
        out[i] += total


@njit(**KERNEL)
def to_table(vectors: np.ndarray, table: np.ndarray, share: Share) -> None:
    """table[i, c] = vectors[c, i] for the i of a share."""
    for i in range(share[0], share[1]):
        for c in range(vectors.shape[0]):
            table[i, c] = vectors[c, i]


@njit(**KERNEL)
def from_table(table: np.ndarray, vectors: np.ndarray, share: Share) -> None:
    """vectors[c, i] = table[i, c] for the i of a share."""
    for i in range(share[0], share[1]):
        for c in range(vectors.shape[0]):
            vectors[c, i] = table[i, c]


@njit(**KERNEL)
def count_columns(indices: np.ndarray, counts: np.ndarray) -> None:
    """counts[j] += the number of times that j is stored."""
    for at in range(indices.size):
        counts[indices[at]] += 1


@njit(**KERNEL)
def fill_transpose(matrix: Compressed, columns: Compressed) -> None:
    """Write rows and values of the transpose; `columns` begins with the place where each column
    begins, which is moved on to where it ends."""
    indptr, indices, data = matrix
    places, rows, values = columns
    for i in range(indptr.size - 1):
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            rows[places[j]] = i
            values[places[j]] = data[at]
            places[j] += 1


@njit(**KERNEL)
def copy_rows(matrix: Compressed, index: np.ndarray, out: Compressed) -> None:
    """Write the rows at an index one after the other; the indptr of out says where."""
    indptr, indices, data = matrix
    starts, columns, values = out
    for i in range(index.size):
        first, place = indptr[index[i]], starts[i]
        for at in range(starts[i + 1] - place):
            columns[place + at] = indices[first + at]
            values[place + at] = data[first + at]


@njit(**KERNEL)
def first_disorder(indptr: np.ndarray, indices: np.ndarray, columns: int) -> tuple[int, int]:
    """The first row whose indices are out of range (1), or not strictly ascending (2); or -1."""
    for i in range(indptr.size - 1):
        before = -1
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            if j < 0 or j >= columns:
                return i, 1
            if j <= before:
                return i, 2
            before = j
    return -1, 0
