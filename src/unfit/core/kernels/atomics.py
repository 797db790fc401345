"""Numbers that threads share: added to, compared, read in order. Knows nothing of ours."""

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

CACHE_LINE = 64


def zeros_on_lines(shape: tuple[int, ...], dtype: type = np.float64) -> np.ndarray:
    """Zeros that begin with a cache line. NumPy's begin anywhere, so that a line may hold the end
    of one thread's numbers and the beginning of another's, and goes back and forth between them."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(nbytes + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + nbytes].view(dtype).reshape(shape)


@intrinsic
def add_and_get(typingctx, array):
    """array[0] before 1 was added to it."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return types.int64(array), codegen


@intrinsic
def replaced(typingctx, array, expected, value):
    """Whether array[0] was as expected; then it is the value now."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        found = builder.cmpxchg(data, args[1], args[2], "seq_cst", "seq_cst")
        return builder.extract_value(found, 1)

    return types.boolean(array, types.int64, types.int64), codegen


@intrinsic
def read(typingctx, array):
    """array[0], and whatever was written before it."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(data, "acquire", 8)

    return types.int64(array), codegen


@intrinsic
def yield_core(typingctx):
    """Let another thread have the core, if one wants it."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])

    return types.int32(), codegen


@njit(nogil=True, cache=True)
def compare_and_set(number, expected, value):
    """Whether number[0] was as expected; then it is the value now."""
    return replaced(number, expected, value)


@njit(nogil=True, cache=True)
def spin_until(number, least, most, spins):
    """Whether number[0] came to be from `least` to `most` within so many looks. The core is not
    yielded: whoever has it next may keep it for milliseconds."""
    for _ in range(spins):  # noqa: SIM110  # numba compiles no generator
        if least <= read(number) <= most:
            return True
    return False


@njit(nogil=True, cache=True)
def wait_for(number, least, yields):
    """Whether number[0] came to be `least` or more while the core was yielded so many times."""
    for _ in range(yields):
        if read(number) >= least:
            return True
        yield_core()
    return read(number) >= least
