"""A loss inside the kernels: its value, slope and curvature at a margin, compiled into each kernel.

numba makes one version of a kernel for each combination of argument types. A loss is an argument
with a type of its own, so that its formulae are inlined where they are used: an empty array of
records whose one field is named after the loss. numba finds the type of an array without asking
Python, which takes a microsecond for every object of ours at every call. The name holds a digest of
the formulae: a version that was cached for a loss that has changed since is not used.
"""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import overload

from unfit.core.kernels.parallel import FASTMATH

_INLINED = {"fastmath": FASTMATH, "error_model": "numpy"}

Formula = Callable[[Any, Any], Any]  # of a margin and a target, numbers or arrays alike


class _LossType(types.Opaque):
    """What losses were typed as once: caches of compiled kernels name it, and are read before they
    are found to be out of date."""


CompiledLoss = np.ndarray  # as kernels take it: empty, and its type says which loss it is

_FORMULAE: dict[str, tuple[Any, Any, Any]] = {}  # value, slope, curvature by the field
_SLOPES: dict[str, Callable[..., None]] = {}  # what is faster than the slope of one row at a time


def compile_loss(
    name: str,
    formulae: tuple[Formula, Formula, Formula],
    slopes: Callable[..., None] | None = None,
) -> CompiledLoss:
    """Value, slope and curvature as kernels take them; slopes: a faster way to those of many rows,
    if there is."""
    key = f"{name}-{_digest(formulae)}"
    _FORMULAE[key] = tuple(njit(**_INLINED)(formula) for formula in formulae)
    if slopes is not None:
        _SLOPES[key] = slopes
    return np.empty(0, dtype=[(key, np.int8)])


def _key(loss: Any) -> str:
    """The name in the numba type of a loss."""
    return str(next(iter(loss.dtype.fields)))


def _digest(formulae: tuple[Formula, ...]) -> str:
    codes = [formula.__code__ for formula in formulae]
    return hashlib.sha256(
        repr([(c.co_code, c.co_consts, c.co_names) for c in codes]).encode()
    ).hexdigest()[:16]


# Functions without a body: numba's `overload` gives them one per loss when it compiles a kernel.
# Called from Python they raise, because there is nothing to be called.


def value(loss: CompiledLoss, margin: float, target: float) -> float:
    """The loss at a margin; in compiled code only."""
    raise NotImplementedError


def slope(loss: CompiledLoss, margin: float, target: float) -> float:
    """Its derivative by the margin; in compiled code only."""
    raise NotImplementedError


def curvature(loss: CompiledLoss, margin: float, target: float) -> float:
    """Its second derivative by the margin; in compiled code only."""
    raise NotImplementedError


def _compile_in(at: int) -> Callable[..., Any]:
    def choose(loss, margin, target):  # type: ignore[no-untyped-def]  # numba calls it with types
        formula = _FORMULAE[_key(loss)][at]
        return lambda loss, margin, target: formula(margin, target)

    return choose


for _at, _function in enumerate((value, slope, curvature)):
    overload(_function, jit_options=_INLINED)(_compile_in(_at))


def slopes_inplace(loss: CompiledLoss, margin: np.ndarray, target: np.ndarray, count: int) -> None:
    """margin[:count] <- the slopes there; in compiled code only."""
    raise NotImplementedError


@overload(slopes_inplace, jit_options=_INLINED, inline="always")
def _choose_slopes(loss, margin, target, count):  # type: ignore[no-untyped-def]
    if _key(loss) in _SLOPES:
        return _SLOPES[_key(loss)]
    formula = _FORMULAE[_key(loss)][1]

    def one_by_one(loss, margin, target, count):  # type: ignore[no-untyped-def]
        for i in range(count):
            margin[i] = formula(margin[i], target[i])

    return one_by_one


def logistic_slopes(loss, margin, target, count):  # type: ignore[no-untyped-def]
    """p - t for many rows: a loop of its own for p, which the compiler makes vectors of."""
    _sigmoid_inplace(margin, count)
    for i in range(count):
        margin[i] -= target[i]


def _sigmoid_inplace(values: np.ndarray, count: int) -> None:
    raise NotImplementedError


@overload(_sigmoid_inplace, jit_options=_INLINED, inline="always")
def _choose_sigmoid_inplace(values, count):  # type: ignore[no-untyped-def]
    single = _single if values.dtype == types.float32 else _double

    def impl(values, count):  # type: ignore[no-untyped-def]
        for i in range(count):
            values[i] = single(values[i])

    return impl


def sigmoid(margin: Any) -> Any:
    """1 / (1 + exp(-margin)), of numbers, of arrays, and in compiled code."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-margin))


def _sigmoid_float32(margin):  # type: ignore[no-untyped-def]  # numba compares signatures
    # exp(-x) = 2^n 2^f with |f| <= 1/2 and a polynomial for 2^f: vectorises, error below 1e-7.
    f32 = np.float32
    z = min(max(-margin, f32(-87.0)), f32(87.0)) * f32(math.log2(math.e))
    n = np.int32(np.int32(z + f32(256.5)) - np.int32(256))  # rounds; floor is a call
    f = z - f32(n)
    p = f32(1.5403530e-4) * f + f32(1.3333558e-3)
    p = p * f + f32(9.6181291e-3)
    p = p * f + f32(5.5504109e-2)
    p = p * f + f32(2.4022651e-1)
    p = p * f + f32(6.9314718e-1)
    p = p * f + f32(1.0)
    power = np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)
    return f32(1.0) / (f32(1.0) + p * power)


def _sigmoid_float64(margin):  # type: ignore[no-untyped-def]
    e = math.exp(-abs(margin))
    return (1.0 if margin >= 0 else e) / (1.0 + e)


_single = njit(inline="always", **_INLINED)(_sigmoid_float32)
_double = njit(inline="always", **_INLINED)(_sigmoid_float64)


@overload(sigmoid, jit_options=_INLINED)
def _choose_sigmoid(margin):  # type: ignore[no-untyped-def]  # numba calls it with types
    return _sigmoid_float32 if margin == types.float32 else _sigmoid_float64
