"""The kernels of a GPU, in Triton. Imported only where Triton is installed."""

import triton
import triton.language as tl


@triton.jit
def _slope(margin, target, LOSS: tl.constexpr):
    if LOSS == 0:
        found = 1.0 / (1.0 + tl.exp(-margin)) - target
    elif LOSS == 1:
        found = margin - (2.0 * target - 1.0)
    else:
        y = 2.0 * target - 1.0
        found = -2.0 * y * tl.maximum(1.0 - y * margin, 0.0)
    return found


@triton.jit
def sums_over_rows(
    X, codes, weight, noted, w, parts,
    n, p, positive,
    LOSS: tl.constexpr, INTERCEPT: tl.constexpr, PRODUCT: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """parts (programs, d) <- sums over the rows of each program.

    The gradient at w, with the margin of each row noted: values and curvatures are made of them
    elsewhere, since logarithms would keep the reading of rows waiting. Or, as a product, sum
    curvature x (x.w) with curvatures that are noted already. Rows whose weight is 0 do not count,
    whatever they hold.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    column = tl.arange(0, COLUMNS)
    inside = column < p
    at = tl.load(w + column, mask=inside, other=0.0)
    total = tl.zeros([COLUMNS], tl.float64)
    through = tl.zeros([ROWS], tl.float64)
    bias = 0.0
    if INTERCEPT:
        bias = tl.load(w + p)
    for block in tl.range(program, tl.cdiv(n, ROWS), programs, num_stages=STAGES):
        row = block * ROWS + tl.arange(0, ROWS)
        real = row < n
        place = row.to(tl.int64)[:, None] * p + column[None, :]
        x = tl.load(X + place, mask=real[:, None] & inside[None, :], other=0.0)
        margin = tl.sum(x.to(tl.float64) * at[None, :], axis=1) + bias
        if PRODUCT:
            scale = tl.load(noted + row, mask=real, other=0.0)
            slope = tl.where(scale == 0.0, 0.0, scale * margin)
        else:
            target = tl.where(tl.load(codes + row, mask=real, other=-1) == positive, 1.0, 0.0)
            target = target.to(tl.float64)
            times = real.to(tl.float64)
            if weight is not None:
                times = tl.load(weight + row, mask=real, other=0.0)
            counts = times != 0.0
            slope = tl.where(counts, times * _slope(margin, target, LOSS), 0.0)
            tl.store(noted + row, margin, mask=real)
        total += tl.sum(x.to(tl.float64) * slope[:, None], axis=0)
        through += slope
    d = p
    if INTERCEPT:
        d = p + 1
        tl.store(parts + program * d + p, tl.sum(through, axis=0))
    tl.store(parts + program * d + column, total, mask=inside)


@triton.jit
def batch_slopes(
    X, codes, chosen, W, slopes,
    size, p, batch,
    LOSS: tl.constexpr, INTERCEPT: tl.constexpr, BINARY: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """slopes (k, batch) <- the slope at each of the chosen rows; a program has ROWS of them."""
    problem = tl.program_id(1)
    column, place = tl.arange(0, COLUMNS), tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside, real = column < p, place < size
    w = W + problem * p
    bias = 0.0
    if INTERCEPT:
        w += problem
        bias = tl.load(w + p)
    at = tl.load(w + column, mask=inside, other=0.0)
    row = tl.load(chosen + place, mask=real, other=0)
    where = row.to(tl.int64)[:, None] * p + column[None, :]
    x = tl.load(X + where, mask=real[:, None] & inside[None, :], other=0.0)
    margin = tl.sum(x.to(tl.float64) * at[None, :], axis=1) + bias
    positive = problem
    if BINARY:
        positive = problem + 1
    target = tl.where(tl.load(codes + row, mask=real, other=-1) == positive, 1.0, 0.0)
    found = _slope(margin, target.to(tl.float64), LOSS)
    tl.store(slopes + problem * batch + place, found, mask=real)


@triton.jit
def descend(
    X, chosen, slopes, W, linear_term, rate, kept,
    size, p, d, batch,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """W <- W - eta (mean slope x + l2 W + linear_term) for the columns of a program.

    rate: eta and l2, in float64. kept (2, k, d), if there: takes the weights before the step and
    the mean gradient. The column of ones, where there is one, is the last of d and not in X.
    """
    problem = tl.program_id(1)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    real, stored = column < d, column < p
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for first in range(0, size, ROWS):
        place = first + tl.arange(0, ROWS)
        counts = place < size
        row = tl.load(chosen + place, mask=counts, other=0)
        slope = tl.load(slopes + problem * batch + place, mask=counts, other=0.0)
        where = row.to(tl.int64)[:, None] * p + column[None, :]
        x = tl.load(X + where, mask=counts[:, None] & stored[None, :], other=1.0)
        total += x.to(tl.float64) * slope[:, None]
    mean = tl.sum(total, axis=0) / size
    at = problem * d + column
    w = tl.load(W + at, mask=real, other=0.0)
    if kept is not None:
        tl.store(kept + at, w, mask=real)
        tl.store(kept + tl.num_programs(1) * d + at, mean, mask=real)
    eta, l2 = tl.load(rate), tl.load(rate + 1)
    tilt = tl.load(linear_term + at, mask=real, other=0.0)
    tl.store(W + at, w - eta * (mean + l2 * w + tilt), mask=real)
