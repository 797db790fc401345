"""Rows on a device: as many as its budget holds stay there, the rest passes by in blocks.

A block that passes by is copied into pinned memory by all cores, and from there to the device while
the block before it is worked on: two of each. What was erased is zeroed in every copy made here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from unfit.core.kernels.parallel import available_threads, run_threads
from unfit.core.objective import Rows

STAGE_BYTES = 64 << 20  # of a block that passes by; two are on the device, two in pinned memory
_FEWEST = 64  # rows of a block, however small the budget
_WORTH_A_THREAD = 4 << 20  # bytes


@dataclass(frozen=True)
class Block:
    """Rows start to stop - 1, (stop - start, p), on the device until the next block comes."""

    X: torch.Tensor
    start: int
    stop: int


class DeviceRows:
    """The numbers of rows on a device; budget: bytes that may stay there, None for all."""

    def __init__(self, rows: Rows, device: torch.device, budget: int | None) -> None:
        self.host, self.device = rows.X, device
        n, p = rows.X.shape
        bytes_of_row = max(1, p * rows.X.itemsize)
        self.dtype = torch.float32 if rows.X.dtype == np.float32 else torch.float64
        stage = min(STAGE_BYTES, n * bytes_of_row)
        self.budget = budget
        if budget is None or n * bytes_of_row <= budget:
            self.resident, stage_rows = n, 1
        else:
            stage_rows = max(_FEWEST, min(stage, budget // 4) // bytes_of_row)
            self.resident = max(0, min(n, budget // bytes_of_row - 2 * stage_rows))
        self.X = torch.empty((self.resident, p), dtype=self.dtype, device=device)
        self._stage = _Stage(p, stage_rows, self.dtype, device)
        self._fill()

    def __len__(self) -> int:
        return len(self.host)

    @property
    def p(self) -> int:
        return int(self.host.shape[1])

    @property
    def streams(self) -> bool:
        """Whether some rows do not stay on the device."""
        return bool(self.resident < len(self))

    def blocks(self, step: int) -> Iterator[Block]:
        """All rows, at most `step` at a time."""
        for start in range(0, self.resident, step):
            stop = min(start + step, self.resident)
            yield Block(self.X[start:stop], start, stop)
        if self.streams:
            yield from self._stage.blocks(self.host, self.resident, step)

    def erase(self, rows: np.ndarray) -> None:
        """Zero these rows, and whatever block passed by last."""
        here = rows[rows < self.resident]
        if here.size:
            self.X[torch.as_tensor(here.astype(np.int64), device=self.device)] = 0
        self._stage.clear()

    def _fill(self) -> None:
        if self.device.type == "cpu":
            _copy(self.X.numpy(), self.host[: self.resident])
            return
        at_once = max(1, STAGE_BYTES // max(1, self.host[:1].nbytes))
        stage = _Stage(self.p, at_once, self.dtype, self.device)
        for block in stage.blocks(self.host[: self.resident], 0, len(self.host)):
            self.X[block.start : block.stop].copy_(block.X)
        torch.cuda.synchronize(self.device)


class _Stage:
    """Two blocks in pinned memory and two on the device, by turns; made when they are needed."""

    def __init__(self, p: int, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self._shape, self._dtype, self._device = (rows, p), dtype, device
        self._pinned: list[torch.Tensor] = []
        self._there: list[torch.Tensor] = []

    def _make(self) -> None:
        if not self._there:
            pin = self._device.type == "cuda"
            kind, where = self._dtype, self._device
            self._pinned = [torch.zeros(self._shape, dtype=kind, pin_memory=pin) for _ in "ab"]
            self._there = [torch.zeros(self._shape, dtype=kind, device=where) for _ in "ab"]

    def clear(self) -> None:
        for buffer in (*self._pinned, *self._there):
            buffer.zero_()

    def blocks(self, host: np.ndarray, first: int, step: int) -> Iterator[Block]:
        self._make()
        step = min(step, self._shape[0])
        starts = range(first, len(host), step)
        if self._device.type == "cuda":
            yield from self._overlapped(host, starts, step)
            return
        for start in starts:
            stop = min(start + step, len(host))
            _copy(self._pinned[0].numpy()[: stop - start], host[start:stop])
            self._there[0].copy_(self._pinned[0])
            yield Block(self._there[0][: stop - start], start, stop)

    def _overlapped(self, host: np.ndarray, starts: range, step: int) -> Iterator[Block]:
        """A block is copied while the one before it is worked on."""
        copying, working = torch.cuda.Stream(self._device), torch.cuda.current_stream(self._device)
        copied = [torch.cuda.Event() for _ in "ab"]
        used = [torch.cuda.Event() for _ in "ab"]
        waiting: Block | None = None
        try:
            for i, start in enumerate(starts):
                slot, stop = i % 2, min(start + step, len(host))
                copied[slot].synchronize()  # the pinned block may be written to again
                _copy(self._pinned[slot].numpy()[: stop - start], host[start:stop])
                with torch.cuda.stream(copying):
                    copying.wait_event(used[slot])
                    there = self._there[slot][: stop - start]
                    there.copy_(self._pinned[slot][: stop - start], non_blocking=True)
                    copied[slot].record(copying)
                if waiting is not None:
                    yield waiting
                    used[1 - slot].record(working)
                working.wait_event(copied[slot])
                waiting = Block(there, start, stop)
            if waiting is not None:
                yield waiting
        finally:  # the next pass has events of its own, and knows nothing of what is on its way
            copying.synchronize()
            working.synchronize()


def _copy(to: np.ndarray, source: np.ndarray) -> None:
    """By all cores where there is much to copy."""
    threads = min(available_threads(), 1 + source.nbytes // _WORTH_A_THREAD)

    def body(t: int) -> None:
        part = slice(len(source) * t // threads, len(source) * (t + 1) // threads)
        np.copyto(to[part], source[part])

    run_threads(body, threads)
