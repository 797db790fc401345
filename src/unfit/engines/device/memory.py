"""Which device, how much of its memory, and what is said when there is not enough.

UNFIT_TORCH_DEVICE names the device ("cuda", "cuda:1", "cpu"); UNFIT_DEVICE_MEMORY says how much of
its memory rows may take ("40GB"). Rows beyond that are streamed.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch

from unfit.engines.auto import Gpu
from unfit.errors import BadInput, Unavailable

DEVICE, MEMORY = "UNFIT_TORCH_DEVICE", "UNFIT_DEVICE_MEMORY"
SHARE_OF_FREE = 0.8  # of a GPU's free memory that rows take unless somebody says otherwise
_BANDWIDTH = 0.5e12  # bytes per second, where a GPU does not say
_RATE_OF_SM = 200e9  # operations in float32 per second of one of its processors
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_OUT_OF_MEMORY = re.compile("out of memory|can't allocate memory|not enough memory")


def chosen_device(name: str | None = None) -> torch.device:
    """The named device, else the one of UNFIT_TORCH_DEVICE, else a GPU if there is one."""
    asked = name or os.environ.get(DEVICE) or ("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", asked):
        raise BadInput(f"unknown device {asked!r}; {DEVICE} takes 'cuda', 'cuda:1' or 'cpu'")
    kind, _, number = asked.partition(":")
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise Unavailable(
            f"The engine 'torch' was asked for the device {asked!r}, but PyTorch finds no CUDA GPU "
            f"here; set {DEVICE}=cpu, or use the engine 'cpu'."
        )
    if int(number or 0) >= torch.cuda.device_count():
        raise Unavailable(
            f"The engine 'torch' was asked for the device {asked!r}, but there are only "
            f"{torch.cuda.device_count()} GPUs here; they are counted from 0."
        )
    return torch.device("cuda", int(number)) if number else torch.device("cuda")


def gpu_here() -> Gpu | None:
    """The GPU that would be used, if there is one and nobody has asked for the CPU."""
    if os.environ.get(DEVICE) == "cpu" or not torch.cuda.is_available():
        return None
    device = chosen_device()
    about, (free, _) = torch.cuda.get_device_properties(device), torch.cuda.mem_get_info(device)
    clock, bus = getattr(about, "memory_clock_rate", 0), getattr(about, "memory_bus_width", 0)
    given = os.environ.get(MEMORY)
    return Gpu(
        name=about.name,
        free=_bytes(given) if given else int(SHARE_OF_FREE * free),
        bandwidth=2e3 * clock * bus / 8 or _BANDWIDTH,  # of memory that sends twice a cycle
        rate=about.multi_processor_count * _RATE_OF_SM,
    )


def row_budget(device: torch.device, given: int | str | None, other: int) -> int | None:
    """The bytes that rows may take on a device; None for any number.

    given: from the caller, else UNFIT_DEVICE_MEMORY. other: bytes that are needed beside the rows.
    """
    given = given if given is not None else os.environ.get(MEMORY) or None
    if given is not None:
        return _bytes(given)
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return max(0, int(SHARE_OF_FREE * free) - other)


def _bytes(given: int | str) -> int:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?B?)\s*", str(given))
    unit = "" if found is None else found[2].upper()
    if found is None or unit not in _UNITS:
        raise BadInput(
            f"{given!r} is not an amount of memory; {MEMORY} takes bytes, or a number with a unit "
            "such as 500MB or 40GB"
        )
    return int(float(found[1]) * _UNITS[unit])


@contextmanager
def device_faults(device: torch.device) -> Iterator[None]:
    """Kernels go to the device; if it has no memory left, it says so in a sentence. A matrix that
    cannot be solved with is the error that it is on the CPU."""
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            yield
    except torch.cuda.OutOfMemoryError as full:
        torch.cuda.empty_cache()
        raise _no_memory(device) from full
    except torch.linalg.LinAlgError as failure:
        raise np.linalg.LinAlgError(str(failure)) from failure
    except (MemoryError, RuntimeError) as failure:
        if isinstance(failure, MemoryError) or _OUT_OF_MEMORY.search(str(failure)):
            raise _no_memory(device) from failure
        raise


def _no_memory(device: torch.device) -> Unavailable:
    return Unavailable(
        f"The device {str(device)!r} has no memory left for this; nothing was changed. Set "
        f"{MEMORY} to what rows may take of it (such as 8GB), so that the rest is streamed, or "
        "use the engine 'cpu'."
    )


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return np.asarray(tensor.cpu().numpy())


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """A copy on the device, whether or not the array may be written to."""
    return torch.tensor(np.ascontiguousarray(array), device=device)
