"""A table of two numbers for each column of sparse rows, and visits of the columns of a row.

    table[2 j] = v_j,   table[2 j + 1] = result_j     of the column at place j

Indices of 32 or 64 bits hold 2 j, and those of 16 bits j, since twice of it does not fit. Two of 32
or 16 bits are read by one load (low bytes first), which may cross a cache line: what a product does
with a column takes two loads and a store, besides those of its index. Places are unsigned: of a
signed index numba looks whether it counts from the end, which costs as much as all the rest.

Four sums at a time, since each addition waits for the last. What is done with a row is inlined by
numba, since a call would count references; and there is no branch in it, since numba counts them
there, too, by atomic operations on what all threads share.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from unfit.core.kernels.parallel import KERNEL, prefetch

Share = tuple[int, int]  # columns or rows of one thread: from, to

_1, _2, _4, _6, _8, _16 = (np.uint64(number) for number in (1, 2, 4, 6, 8, 16))
_EIGHTS = np.uint64(0xFFFFFFFFFFFFFFF8)  # of a number of values, those in groups of eight
_TWOS = np.uint64(0xFFFFFFFFFFFFFFFE)
_AHEAD = np.uint64(24)  # rows, that cache lines are asked for before they are needed
_VALUES_AHEAD = np.uint64(512)  # the same in values, where all columns are asked for
_FAR = np.uint64(2048)  # numbers, that the indices themselves are asked for before that
RAREST = 6  # columns of a row, whose lines are asked for
_SHORT = 16  # bits of an index that holds j
_PLACE = ir.IntType(64)


def _number(bits: int) -> ir.Constant:
    return ir.Constant(_PLACE, bits)


def _address(context, builder, kind, array, at):
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def _single(builder, index):
    """The place of one index that was loaded."""
    bits = index.type.width
    place = index if bits == _PLACE.width else builder.zext(index, _PLACE)
    return builder.shl(place, _number(1)) if bits == _SHORT else place


@intrinsic
def place(typingctx, indices, at):
    """Where the column of indices[at] stands in a table."""

    def codegen(context, builder, signature, args):
        address = _address(context, builder, signature.args[0], *args)
        return _single(builder, builder.load(address))

    return types.uint64(indices, types.uint64), codegen


@intrinsic
def two_places(typingctx, indices, at):
    """Where the columns of indices[at] and indices[at + 1] stand in a table."""

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        address, bits = _address(context, builder, kind, *args), kind.dtype.bitwidth
        if bits == _PLACE.width:
            following = builder.gep(address, [_number(1)])
            found = [_single(builder, builder.load(one)) for one in (address, following)]
            return context.make_tuple(builder, signature.return_type, found)
        both = builder.load(
            builder.bitcast(address, ir.IntType(2 * bits).as_pointer()), align=bits // 8
        )
        if bits == _SHORT:
            both, rest = builder.zext(both, _PLACE), _number(2 * ((1 << _SHORT) - 1))
            low, high = builder.shl(both, _number(1)), builder.lshr(both, _number(_SHORT - 1))
            found = [builder.and_(low, rest), builder.and_(high, rest)]
        else:
            found = [
                builder.and_(both, _number((1 << bits) - 1)),
                builder.lshr(both, _number(bits)),
            ]
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(types.uint64, 2)(indices, types.uint64), codegen


@njit(**KERNEL)
def fill(v: np.ndarray, places: np.ndarray, table: np.ndarray) -> None:
    """The vector v (d,), each column at its place, with results of zero."""
    p = places.size
    for j in range(p):
        at = _2 * np.uint64(places[j])
        table[at] = v[j]
        table[at + _1] = 0.0
    for j in range(p, v.size):
        table[2 * j] = v[j]
        table[2 * j + 1] = 0.0


@njit(**KERNEL)
def collect(tables: np.ndarray, places: np.ndarray, out: np.ndarray, share: Share) -> None:
    """out (d,): the sum of the results of tables (threads, 2 d), each column of a share from its
    place."""
    p = places.size
    for j in range(share[0], share[1]):
        at = _2 * np.uint64(places[j] if j < p else j) + _1
        total = 0.0
        for t in range(tables.shape[0]):
            total += tables[t, at]
        out[j] = total


@njit(**KERNEL, inline="always")
def _sum_of_two(indices: np.ndarray, at: np.uint64, table: np.ndarray) -> float:
    i, j = two_places(indices, at)
    total: float = table[i] + table[j]
    return total


@njit(**KERNEL, inline="always")
def sum_of_columns(indices: np.ndarray, at: np.uint64, stop: np.uint64, table: np.ndarray) -> float:
    """The sum of v over some columns."""
    whole, even = at + ((stop - at) & _EIGHTS), at + ((stop - at) & _TWOS)
    a = b = c = d = table.dtype.type(0)
    while at < whole:
        a += _sum_of_two(indices, at, table)
        b += _sum_of_two(indices, at + _2, table)
        c += _sum_of_two(indices, at + _4, table)
        d += _sum_of_two(indices, at + _6, table)
        at += _8
    while at < even:
        a += _sum_of_two(indices, at, table)
        at += _2
    while at < stop:
        b += table[place(indices, at)]
        at += _1
    total: float = (a + b) + (c + d)
    return total


@njit(**KERNEL, inline="always")
def _dot_of_two(indices: np.ndarray, data: np.ndarray, at: np.uint64, table: np.ndarray) -> float:
    i, j = two_places(indices, at)
    total: float = data[at] * table[i] + data[at + _1] * table[j]
    return total


@njit(**KERNEL, inline="always")
def sum_of_values(
    indices: np.ndarray, data: np.ndarray, at: np.uint64, stop: np.uint64, table: np.ndarray
) -> float:
    """x.v of some stored numbers."""
    whole = at + ((stop - at) & _EIGHTS)
    a = b = c = d = table.dtype.type(0)
    while at < whole:
        a += _dot_of_two(indices, data, at, table)
        b += _dot_of_two(indices, data, at + _2, table)
        c += _dot_of_two(indices, data, at + _4, table)
        d += _dot_of_two(indices, data, at + _6, table)
        at += _8
    while at < stop:
        a += data[at] * table[place(indices, at)]
        at += _1
    total: float = (a + b) + (c + d)
    return total


@njit(**KERNEL, inline="always")
def _add_to_two(indices: np.ndarray, at: np.uint64, scale: float, table: np.ndarray) -> None:
    i, j = two_places(indices, at)
    table[i + _1] += scale
    table[j + _1] += scale


@njit(**KERNEL, inline="always")
def add_alike(
    indices: np.ndarray, at: np.uint64, stop: np.uint64, scale: float, table: np.ndarray
) -> None:
    """result += scale in some columns."""
    whole, even = at + ((stop - at) & _EIGHTS), at + ((stop - at) & _TWOS)
    while at < whole:
        _add_to_two(indices, at, scale, table)
        _add_to_two(indices, at + _2, scale, table)
        _add_to_two(indices, at + _4, scale, table)
        _add_to_two(indices, at + _6, scale, table)
        at += _8
    while at < even:
        _add_to_two(indices, at, scale, table)
        at += _2
    while at < stop:
        table[place(indices, at) + _1] += scale
        at += _1


@njit(**KERNEL, inline="always")
def add_values(
    indices: np.ndarray,
    data: np.ndarray,
    at: np.uint64,
    stop: np.uint64,
    scale: float,
    table: np.ndarray,
) -> None:
    """result += scale x of some stored numbers."""
    even = at + ((stop - at) & _TWOS)
    while at < even:
        i, j = two_places(indices, at)
        table[i + _1] += scale * data[at]
        table[j + _1] += scale * data[at + _1]
        at += _2
    while at < stop:
        table[place(indices, at) + _1] += scale * data[at]
        at += _1


@njit(**KERNEL, inline="always")
def ask_ahead(indptr: np.ndarray, indices: np.ndarray, i: np.uint64, table: np.ndarray) -> None:
    """Ask for the cache lines of the last columns of a row to come, and for indices far behind it.
    A processor ignores what is asked for beyond the end."""
    prefetch(indptr, np.int64(i + _FAR // _16))
    far = np.int64(np.uint64(indptr[i]) + _FAR)
    prefetch(indices, far)
    prefetch(indices, far + 15)
    at = max(np.uint64(indptr[min(i + _AHEAD, np.uint64(indptr.size) - _1)]), _6) - _6
    j, k = two_places(indices, at)
    prefetch(table, np.int64(j))
    prefetch(table, np.int64(k))
    j, k = two_places(indices, at + _2)
    prefetch(table, np.int64(j))
    prefetch(table, np.int64(k))
    j, k = two_places(indices, at + _4)
    prefetch(table, np.int64(j))
    prefetch(table, np.int64(k))


@njit(**KERNEL, inline="always")
def ask_for_all(indices: np.ndarray, at: np.uint64, stop: np.uint64, table: np.ndarray) -> None:
    """Ask for the cache lines of as many columns as a row has, that many values ahead."""
    last = np.uint64(indices.size) - _2
    while at < stop:
        j, k = two_places(indices, min(at + _VALUES_AHEAD, last))
        prefetch(table, np.int64(j))
        prefetch(table, np.int64(k))
        at += _2
