"""Products with sparse rows and with their transpose, in float64.

For several vectors both are the same loop: every row of the result is a sum of scaled rows of a
table, gathered where the indices say. X V gathers rows of V (one per column), X^T U gathers rows of
U (one per row) with the indices of the transpose. So no thread adds to what another one adds to.
Tables hold the numbers of all vectors side by side, padded to whole vector registers: a gathered
row is one or a few cache lines.

For one vector a thread can do with the rows alone: see kernels.sparse_pairs.

Indices are unsigned where numba compiles them: it looks whether a signed one counts from the end,
which costs as much as all the rest. All rows of a share are gathered in one function: a call for
every row would count references, by atomic operations on what all threads share.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, terms_inplace
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
_1 = np.uint64(1)
_BLOCK = 256  # rows, whose losses are computed at once
_MOST = 6 * LANES  # numbers that are summed in registers at a time

Compressed = tuple[np.ndarray, np.ndarray, np.ndarray]  # indptr, indices, data
Share = tuple[int, int]  # rows that one thread makes: from, to


def padded(vectors: int) -> int:
    """Numbers in a row of a table of so many vectors; a single one lies alone."""
    return vectors if vectors == 1 else -(-vectors // LANES) * LANES


@njit(**KERNEL)
def _gather(
    matrix: Compressed,
    weights: np.ndarray,
    table: tuple[np.ndarray, int],
    out: np.ndarray,
    share: Share,
) -> None:
    """out[i width : (i + 1) width] = the sum of scaled rows of a table: flat numbers and width.

    weights (n,): rows of weight 0 are not read, and their sums are 0; empty where all are read.
    """
    indptr, indices, data = matrix
    flat, width = table
    numbers, column = (indices, data), 0
    first, last = np.uint64(share[0]), np.uint64(share[1])
    while column < width:
        left = 0 if width == 1 else min(width - column, _MOST) // LANES
        for i in range(first, last):
            start, stop = indptr[i], indptr[i + _1]
            if weights.size and weights[i] == 0.0:
                stop = start
            at = np.int64(i) * width + column
            if left == 0:
                total = 0.0
                for j in range(np.uint64(start), np.uint64(stop)):
                    total += np.float64(data[j]) * flat[np.uint64(indices[j])]
                out[np.uint64(at)] = total
            elif left == 1:
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
        column += max(1, left * LANES)


@njit(**KERNEL)
def gather_rows(matrix: Compressed, table: np.ndarray, out: np.ndarray, share: Share) -> None:
    """out[i] = sum of x_ij table[j] for the rows i of a share; both (.., width)."""
    flat, target = table.reshape(table.size), out.reshape(out.size)
    _gather(matrix, np.zeros(0), (flat, table.shape[1]), target, share)


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
    table, slopes = problems[1], totals[1]
    flat, target = table.reshape(table.size), slopes.reshape(slopes.size)
    _gather(matrix, labels[1], (flat, table.shape[1]), target, share)
    _write_losses(labels, loss, problems, totals, share)


@njit(**KERNEL)
def _write_losses(
    labels: tuple[np.ndarray, np.ndarray],
    loss: CompiledLoss,
    problems: tuple[np.ndarray, np.ndarray, bool],
    totals: tuple[np.ndarray, np.ndarray, np.ndarray],
    share: Share,
) -> None:
    """The same where slopes hold x.w: they become slopes."""
    codes, weights = labels
    positive, table, intercept = problems
    values, slopes, curvatures = totals
    last = table.shape[0] - 1
    slope, target = np.empty(_BLOCK), np.empty(_BLOCK)
    value, curvature = np.empty(_BLOCK), np.empty(_BLOCK)
    for first in range(share[0], share[1], _BLOCK):
        count = min(_BLOCK, share[1] - first)
        for c in range(positive.size):
            constant = table[last, c] if intercept else 0.0
            for b in range(count):
                slope[b] = slopes[first + b, c] + constant
                target[b] = 1.0 if codes[first + b] == positive[c] else 0.0
            terms_inplace(loss, slope, target, value, curvature, count)
            for b in range(count):
                weight = weights[first + b] if weights.size else 1.0
                if weight == 0.0:  # slopes are 0 already
                    curvatures[first + b, c] = 0.0
                    continue
                values[c] += weight * value[b]
                slopes[first + b, c] = weight * slope[b]
                curvatures[first + b, c] = weight * curvature[b]


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
    flat, target = table.reshape(table.size), out.reshape(out.size)
    _gather(matrix, np.zeros(0), (flat, table.shape[1]), target, share)
    _weigh(weights, table, intercept, out, share)


@njit(**KERNEL)
def _weigh(
    weights: tuple[np.ndarray, np.ndarray],
    table: np.ndarray,
    intercept: bool,
    out: np.ndarray,
    share: Share,
) -> None:
    """The same where out holds x_i.v_c without the intercept."""
    curvatures, problems = weights
    last = table.shape[0] - 1
    for i in range(share[0], share[1]):
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
    """table[i, c] = vectors[c, i] for the i of a share, and 0 beyond the vectors."""
    for i in range(share[0], share[1]):
        for c in range(vectors.shape[0]):
            table[i, c] = vectors[c, i]
        for c in range(vectors.shape[0], table.shape[1]):
            table[i, c] = 0.0


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
def count_values(matrix: Compressed, counted: np.ndarray, counts: np.ndarray, share: Share) -> None:
    """counts[j] += the number of rows of a share that are counted (n,) and whose value in j is not
    0."""
    indptr, indices, data = matrix
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        if counted[i]:
            for at in range(np.uint64(indptr[i]), np.uint64(indptr[i + _1])):
                counts[np.uint64(indices[at])] += data[at] != 0


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
