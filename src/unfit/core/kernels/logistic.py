"""The logistic loss of many rows at once: exp and log1p by sums that the compiler makes vectors of.

A library's exp and log1p take one number at a time, and a row whose loss, slope and curvature are
asked for one after the other needs four such calls. Here e = exp(-|m|) is computed once, and all
three follow from it:

    slope + t = 1 / (1 + e) or e / (1 + e),   curvature = e / (1 + e)^2,
    value + t m = max(m, 0) + log1p(e),       log1p(e) = 2 artanh(e / (2 + e))

exp(-a) = 2^-n 2^f with |f| <= 1/2. Series end where a term is below 1e-17 of the first; the errors
are a few 1e-16, of exp relative to itself and |m| times as much, up to |m| = 708. Beyond, e stays
at 3e-308, the smallest power that is a normal number. Margins may be float32, for slopes alone.
"""

import math
from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import overload

from unfit.core.kernels.parallel import FASTMATH

_INLINED = {"fastmath": FASTMATH, "error_model": "numpy"}
_LOG2_E = math.log2(math.e)
_FARTHEST = 708.0  # exp(-708) is a normal number yet
_EXP = tuple(math.log(2) ** k / math.factorial(k) for k in range(14))
_ARTANH = tuple(1 / (2 * k + 1) for k in range(17))  # of z up to 1/3, in powers of z^2


def sigmoid(margin: Any) -> Any:
    """1 / (1 + exp(-margin)), of numbers, of arrays, and in compiled code."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-margin))


@njit(inline="always", **_INLINED)
def _exp_of_minus(a: float) -> float:
    """exp(-a) for a >= 0; NaN stays."""
    z = (_FARTHEST if a > _FARTHEST else a) * _LOG2_E
    n = np.int32(z + 0.5)
    f = n - z
    p = _EXP[13] * f + _EXP[12]
    p = p * f + _EXP[11]
    p = p * f + _EXP[10]
    p = p * f + _EXP[9]
    p = p * f + _EXP[8]
    p = p * f + _EXP[7]
    p = p * f + _EXP[6]
    p = p * f + _EXP[5]
    p = p * f + _EXP[4]
    p = p * f + _EXP[3]
    p = p * f + _EXP[2]
    p = p * f + _EXP[1]
    p = p * f + _EXP[0]
    power = np.int64((np.int64(1023) - np.int64(n)) << np.int64(52)).view(np.float64)
    return float(p * power)


@njit(inline="always", **_INLINED)
def _artanh(z: float) -> float:
    """artanh(z) for 0 <= z <= 1/3."""
    s = z * z
    p = _ARTANH[16] * s + _ARTANH[15]
    p = p * s + _ARTANH[14]
    p = p * s + _ARTANH[13]
    p = p * s + _ARTANH[12]
    p = p * s + _ARTANH[11]
    p = p * s + _ARTANH[10]
    p = p * s + _ARTANH[9]
    p = p * s + _ARTANH[8]
    p = p * s + _ARTANH[7]
    p = p * s + _ARTANH[6]
    p = p * s + _ARTANH[5]
    p = p * s + _ARTANH[4]
    p = p * s + _ARTANH[3]
    p = p * s + _ARTANH[2]
    p = p * s + _ARTANH[1]
    p = p * s + _ARTANH[0]
    return float(z * p)


def _sigmoid_float32(margin):  # type: ignore[no-untyped-def]  # numba compares signatures
    # exp(-x) = 2^n 2^f with |f| <= 1/2 and a polynomial for 2^f: error below 1e-7.
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
    e = _exp_of_minus(abs(margin))
    return (1.0 if margin >= 0 else e) / (1.0 + e)


_single = njit(inline="always", **_INLINED)(_sigmoid_float32)
_double = njit(inline="always", **_INLINED)(_sigmoid_float64)


@overload(sigmoid, jit_options=_INLINED)
def _choose_sigmoid(margin):  # type: ignore[no-untyped-def]  # numba calls it with types
    return _sigmoid_float32 if margin == types.float32 else _sigmoid_float64


def logistic_slopes(loss, margin, target, count):  # type: ignore[no-untyped-def]
    """As `margin.slopes_inplace`."""
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


def logistic_terms(loss, margin, target, values, curvatures, count):  # type: ignore[no-untyped-def]
    """As `margin.terms_inplace`."""
    for i in range(count):
        m, t = margin[i], target[i]
        e = _exp_of_minus(abs(m))
        both = 1.0 / ((1.0 + e) * (2.0 + e))
        inverse = both * (2.0 + e)
        values[i] = max(m, 0.0) + 2.0 * _artanh(e * both * (1.0 + e)) - t * m
        curvatures[i] = e * inverse * inverse
        margin[i] = (1.0 if m >= 0 else e) * inverse - t
