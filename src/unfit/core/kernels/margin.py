"""A loss inside the kernels: its value, slope and curvature at a margin, compiled into each kernel.

numba makes one version of a kernel for each combination of argument types. A loss is an argument
with a type of its own, so that its formulae are inlined where they are used: an empty array of
records whose one field is named after the loss. numba finds the type of an array without asking
Python, which takes a microsecond for every object of ours at every call. The name holds a digest of
the formulae: a version that was cached for a loss that has changed since is not used.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import overload

from unfit.core.kernels.parallel import FASTMATH

_INLINED = {"fastmath": FASTMATH, "error_model": "numpy"}

Formula = Callable[[Any, Any], Any]  # of a margin and a target, numbers or arrays alike
OfMany = tuple[Callable[..., None], Callable[..., None]]  # slopes_inplace and terms_inplace


class _LossType(types.Opaque):
    """What losses were typed as once: caches of compiled kernels name it, and are read before they
    are found to be out of date."""


CompiledLoss = np.ndarray  # as kernels take it: empty, and its type says which loss it is

_FORMULAE: dict[str, tuple[Any, Any, Any]] = {}  # value, slope, curvature by the field
_OF_MANY: dict[str, OfMany] = {}


def compile_loss(
    name: str, formulae: tuple[Formula, Formula, Formula], of_many: OfMany | None = None
) -> CompiledLoss:
    """Value, slope and curvature as kernels take them; of_many: what is faster for many rows than
    one at a time, if there is."""
    key = f"{name}-{_digest(formulae, of_many or ())}"
    _FORMULAE[key] = tuple(njit(**_INLINED)(formula) for formula in formulae)
    if of_many is not None:
        _OF_MANY[key] = of_many
    return np.empty(0, dtype=[(key, np.int8)])


def _key(loss: Any) -> str:
    """The name in the numba type of a loss."""
    return str(next(iter(loss.dtype.fields)))


def _digest(formulae: tuple[Formula, ...], of_many: tuple[Callable[..., None], ...]) -> str:
    """Of the formulae, and of the files of functions that call others there."""
    codes = [formula.__code__ for formula in formulae]
    files = sorted({function.__code__.co_filename for function in of_many})
    whole = [(c.co_code, c.co_consts, c.co_names) for c in codes]
    parts = [repr(whole).encode(), *(Path(file).read_bytes() for file in files)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


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
    if _key(loss) in _OF_MANY:
        return _OF_MANY[_key(loss)][0]
    formula = _FORMULAE[_key(loss)][1]

    def one_by_one(loss, margin, target, count):  # type: ignore[no-untyped-def]
        for i in range(count):
            margin[i] = formula(margin[i], target[i])

    return one_by_one


def terms_inplace(
    loss: CompiledLoss,
    margin: np.ndarray,
    target: np.ndarray,
    values: np.ndarray,
    curvatures: np.ndarray,
    count: int,
) -> None:
    """margin[:count] <- the slopes there, of float64; values and curvatures are written, too; in
    compiled code only."""
    raise NotImplementedError


@overload(terms_inplace, jit_options=_INLINED, inline="always")
def _choose_terms(loss, margin, target, values, curvatures, count):  # type: ignore[no-untyped-def]
    if _key(loss) in _OF_MANY:
        return _OF_MANY[_key(loss)][1]
    of_value, of_slope, of_curvature = _FORMULAE[_key(loss)]

    def one_by_one(loss, margin, target, values, curvatures, count):  # type: ignore[no-untyped-def]
        for i in range(count):
            m, t = margin[i], target[i]
            values[i], curvatures[i] = of_value(m, t), of_curvature(m, t)
            margin[i] = of_slope(m, t)

    return one_by_one
