"""One kernel for a pass over float32 rows: each is read once, and widened in registers.

A program walks over every P-th block of R rows. It holds the weights and its share of the gradient,
D float64 each, in registers, so that margins and gradient come from one reading: 4 bytes of memory
for 2 multiply-adds in float64. That is below what a GPU with full-rate float64 does in the time,
so the pass takes as long as memory takes. Written in Triton, which comes with PyTorch for CUDA;
without it, or for rows that are too long or several problems, blocks are widened in memory.
"""

from typing import TYPE_CHECKING

import torch

from unfit.engines.device.losses import number_of
from unfit.engines.device.rows import Block, DeviceRows

if TYPE_CHECKING:
    from unfit.engines.device.sgd import SgdRun
    from unfit.engines.device.sums import Evaluated, Sums

try:
    import triton

    from unfit.engines.device import kernels
except ImportError:
    triton = None

LONGEST = 4096  # columns whose float64 sums fit into the registers of a program
FEW = 2  # problems up to which one reading each beats several at once from widened rows
PROGRAMS_PER_SM = 2
ROWS_OF_SLOPES = 4  # rows of a batch whose slopes a program computes
COLUMNS_OF_STEP, ROWS_OF_STEP = 16, 128  # columns that a program moves, by so many rows at a time
INTERPRETED = False  # whether kernels run on the CPU, in Triton's interpreter: for tests


def usable(rows: DeviceRows, k: int) -> bool:
    """Whether the kernel takes such rows."""
    if triton is None or rows.dtype != torch.float32 or not 0 < rows.p <= LONGEST or k > FEW:
        return False
    return INTERPRETED or (
        rows.device.type == "cuda" and torch.cuda.get_device_capability(rows.device) >= (8, 0)
    )


def add_value_gradient(
    sums: "Sums", block: Block, W: torch.Tensor, weight: torch.Tensor | None, found: "Evaluated"
) -> None:
    """Add values and gradients of a block of rows, and note its curvatures if asked for."""
    part = slice(block.start, block.stop)
    margins = torch.empty((block.stop - block.start, 1), dtype=torch.float64, device=sums.device)
    times = None if weight is None else weight[part]
    for c in range(len(W)):
        w = W[c].contiguous()
        gradient = _launch(sums, block, w, c, weight=times, noted=margins, product=False)
        found.gradients[c].add_(gradient)
        curved = found.curvatures is not None
        value, *curvature = sums.value_curvature(part, margins, c, times, curved=curved)
        found.values[c].add_(value.sum())
        if found.curvatures is not None:
            found.curvatures[c, part] = curvature[0]


def add_products(
    sums: "Sums", block: Block, curvatures: torch.Tensor, V: torch.Tensor, out: torch.Tensor
) -> None:
    """Add sum curvature x (x.v) over a block of rows for each vector."""
    for c in range(len(V)):
        v, curvature = V[c].to(torch.float64).contiguous(), curvatures[c, block.start : block.stop]
        out[c].add_(_launch(sums, block, v, 0, weight=None, noted=curvature, product=True))


def _launch(
    sums: "Sums",
    block: Block,
    w: torch.Tensor,
    problem: int,
    *,
    weight: torch.Tensor | None,
    noted: torch.Tensor,
    product: bool,
) -> torch.Tensor:
    """The sum of gradients (d,), with margins noted, or a product with the curvatures noted."""
    n, programs = block.stop - block.start, _programs(sums.device)
    columns = triton.next_power_of_2(sums.p)
    parts = torch.empty((programs, sums.d), dtype=torch.float64, device=sums.device)
    rows, warps, stages = shape_of(columns)
    kernels.sums_over_rows[(programs,)](
        block.X,
        sums.codes[block.start : block.stop],
        weight,
        noted,
        w,
        parts,
        n,
        sums.p,
        int(sums.k == 1) + problem,
        LOSS=number_of(sums.loss),
        INTERCEPT=bool(sums.intercept),
        PRODUCT=product,
        COLUMNS=columns,
        ROWS=rows,
        STAGES=stages,
        num_warps=warps,
    )
    return parts.sum(dim=0)


def shape_of(columns: int) -> tuple[int, int, int]:
    """Rows of a tile, warps of a program and stages of its loads, for a power of two columns."""
    rows = max(1, min(32, 4096 // columns))
    return rows, 4, 3


def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return 3
    return PROGRAMS_PER_SM * int(torch.cuda.get_device_properties(device).multi_processor_count)


def walks(sums: "Sums") -> bool:
    """Whether the two kernels of an SGD step take such rows: any number of problems."""
    return usable(sums.rows, 1) and sums.on_device


def sgd_step(run: "SgdRun", step: int, begin: int, size: int) -> None:
    """One step: slopes of the rows of a batch, then the weights, some columns a program."""
    sums, k = run.sums, len(run.W)
    chosen, columns = run.index[begin : begin + size], triton.next_power_of_2(sums.p)
    kernels.batch_slopes[(triton.cdiv(size, ROWS_OF_SLOPES), k)](
        sums.rows.X,
        sums.codes,
        chosen,
        run.W,
        run.slopes,
        size,
        sums.p,
        run.plan.batch_size,
        LOSS=number_of(sums.loss),
        INTERCEPT=bool(sums.intercept),
        BINARY=sums.k == 1,
        COLUMNS=columns,
        ROWS=ROWS_OF_SLOPES,
        num_warps=4,
    )
    kernels.descend[(triton.cdiv(sums.d, COLUMNS_OF_STEP), k)](
        sums.rows.X,
        chosen,
        run.slopes,
        run.W,
        run.linear_term,
        run.rate,
        run.kept[step] if len(run.kept) else None,
        size,
        sums.p,
        sums.d,
        run.plan.batch_size,
        COLUMNS=COLUMNS_OF_STEP,
        ROWS=ROWS_OF_STEP,
        num_warps=8,
    )
