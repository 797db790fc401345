"""Loops written down as vectors: four dot products, scaled rows added, outer products.

The compiler vectorises these loops by itself, but guards each run with alias and remainder checks
that cost more than a short row does. A width must be whole vectors (as in core.sgd.Layout; else the
caller does the rest), so there is at most one vector after the last whole cache line, and the
gradient is nobody's row. Offsets count numbers in a flat array.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from unfit.core.kernels.atomics import CACHE_LINE
from unfit.core.kernels.parallel import VECTOR

_FAST = ("reassoc", "contract", "nsz", "arcp")


class _Loop:
    """The IR that loops share: vectors of one cache line at a time from flat arrays."""

    def __init__(self, context, builder, number, width) -> None:
        self.builder, self.width = builder, width
        self.scalar = context.get_value_type(number)
        self.size = number.bitwidth // 8
        self.lanes = VECTOR // self.size
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.count = CACHE_LINE // VECTOR

    def run(self, body):
        """body(offset, parts): for every cache line, then for the vector that may be left."""
        builder, kind = self.builder, self.width.type
        per_line = CACHE_LINE // self.size
        whole = builder.and_(self.width, ir.Constant(kind, -per_line))
        step, zero = ir.Constant(kind, per_line), ir.Constant(kind, 0)
        with cgutils.for_range_slice(builder, zero, whole, step) as (offset, _):
            body(offset, range(self.count))
        with builder.if_then(builder.icmp_signed("<", whole, self.width), likely=False):
            body(whole, range(1))

    def at(self, data, offset, part):
        place = self.builder.add(offset, ir.Constant(offset.type, part * self.lanes))
        return self.builder.bitcast(self.builder.gep(data, [place]), self.vector.as_pointer())

    def load(self, data, offset, part):
        return self.builder.load(self.at(data, offset, part), align=self.size)

    def multiply_add(self, a, b, c):
        return self.builder.fadd(c, self.builder.fmul(a, b, flags=_FAST), flags=_FAST)

    def spread(self, value):
        single = self.builder.insert_element(
            ir.Constant(self.vector, ir.Undefined), value, ir.IntType(32)(0)
        )
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(single, ir.Constant(self.vector, ir.Undefined), mask)

    def total(self, vector):
        lanes = self.lanes
        while lanes > 1:  # halves onto halves, in registers
            lanes //= 2
            order = [i + lanes if i < lanes else i for i in range(self.lanes)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), order)
            upper = self.builder.shuffle_vector(vector, vector, mask)
            vector = self.builder.fadd(vector, upper, flags=_FAST)
        return self.builder.extract_element(vector, ir.IntType(32)(0))


def _data(context, builder, kind, array):
    return context.make_array(kind)(context, builder, array).data


@intrinsic
def dot4(typingctx, flat, o0, o1, o2, o3, w, width):
    """(x0.w, x1.w, x2.w, x3.w) for the rows that start at the four offsets."""
    number = flat.dtype
    signature = types.UniTuple(number, 4)(flat, *[types.intp] * 4, w, types.intp)

    def codegen(context, builder, signature, args):
        x = _data(context, builder, signature.args[0], args[0])
        w = _data(context, builder, signature.args[5], args[5])
        loop = _Loop(context, builder, number, args[6])
        zero = ir.Constant(loop.vector, [0.0] * loop.lanes)
        sums = [
            [cgutils.alloca_once_value(builder, zero) for _ in range(loop.count)] for _ in range(4)
        ]

        def body(j, parts):
            for part in parts:
                wj = loop.load(w, j, part)
                for row in range(4):
                    xj = loop.load(x, builder.add(args[1 + row], j), part)
                    kept = sums[row][part]
                    builder.store(loop.multiply_add(xj, wj, builder.load(kept)), kept)

        loop.run(body)
        results = []
        for row in range(4):
            total = builder.load(sums[row][0])
            for part in range(1, loop.count):
                total = builder.fadd(total, builder.load(sums[row][part]), flags=_FAST)
            results.append(loop.total(total))
        return context.make_tuple(builder, signature.return_type, results)

    return signature, codegen


@intrinsic
def add4(typingctx, flat, o0, o1, o2, o3, r0, r1, r2, r3, g, width):
    """g += r0 x0 + r1 x1 + r2 x2 + r3 x3 for the rows that start at the four offsets."""
    number = flat.dtype
    signature = types.void(flat, *[types.intp] * 4, *[number] * 4, g, types.intp)

    def codegen(context, builder, signature, args):
        x = _data(context, builder, signature.args[0], args[0])
        g = _data(context, builder, signature.args[9], args[9])
        loop = _Loop(context, builder, number, args[10])
        scales = [loop.spread(args[5 + row]) for row in range(4)]

        def body(j, parts):
            for part in parts:
                total = loop.load(g, j, part)
                for row in range(4):
                    xj = loop.load(x, builder.add(args[1 + row], j), part)
                    total = loop.multiply_add(xj, scales[row], total)
                builder.store(total, loop.at(g, j, part), align=loop.size)

        loop.run(body)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def scale1(typingctx, flat, offset, scale, out):
    """out = scale times the row that starts at the offset, as long as out."""
    number = flat.dtype
    signature = types.void(flat, types.intp, number, out)

    def codegen(context, builder, signature, args):
        x = _data(context, builder, signature.args[0], args[0])
        row = context.make_array(signature.args[3])(context, builder, args[3])
        loop = _Loop(context, builder, number, builder.extract_value(row.shape, 0))
        scale = loop.spread(args[2])

        def body(j, parts):
            for part in parts:
                xj = loop.load(x, builder.add(args[1], j), part)
                product = builder.fmul(xj, scale, flags=_FAST)
                builder.store(product, loop.at(row.data, j, part), align=loop.size)

        loop.run(body)
        return context.get_dummy_value()

    return signature, codegen


TILE = 4  # rows of a tile of outer products: 4 by 3 vectors are twelve of sixteen registers


def _outer(columns):
    """outer(flat, count, width, i, j, out): out[i:i+TILE, j:j+c] += U[:, i:i+TILE]^T U[:, j:j+c].

    U are the first count rows of flat, out is (width, width) and flat too, c is columns vectors.
    """

    @intrinsic
    def outer(typingctx, flat, count, width, i, j, out):
        number = flat.dtype
        signature = types.void(flat, *[types.intp] * 4, out)

        def codegen(context, builder, signature, args):
            u = _data(context, builder, signature.args[0], args[0])
            h = _data(context, builder, signature.args[5], args[5])
            _, count, width, i, j, _ = args
            loop = _Loop(context, builder, number, width)
            place = [
                builder.add(builder.mul(builder.add(i, ir.Constant(i.type, row)), width), j)
                for row in range(TILE)
            ]
            sums = [
                [
                    cgutils.alloca_once_value(builder, loop.load(h, place[row], part))
                    for part in range(columns)
                ]
                for row in range(TILE)
            ]
            zero, stop = ir.Constant(width.type, 0), builder.mul(count, width)
            with cgutils.for_range_slice(builder, zero, stop, width) as (start, _):
                at = builder.add(start, j)
                vectors = [loop.load(u, at, part) for part in range(columns)]
                for row in range(TILE):
                    one = builder.add(builder.add(start, i), ir.Constant(i.type, row))
                    scale = loop.spread(builder.load(builder.gep(u, [one])))
                    for part in range(columns):
                        kept = sums[row][part]
                        total = loop.multiply_add(vectors[part], scale, builder.load(kept))
                        builder.store(total, kept)
            for row in range(TILE):
                for part in range(columns):
                    value = builder.load(sums[row][part])
                    builder.store(value, loop.at(h, place[row], part), align=loop.size)
            return context.get_dummy_value()

        return signature, codegen

    return outer


outer1, outer2, outer3 = _outer(1), _outer(2), _outer(3)


def _weighted(vectors):
    """weighted(numbers, start, stop, flat, width, column, out, place): a sum of scaled rows.

    numbers are indices and values. The sum over start <= i < stop of values[i] times row indices[i]
    of flat, in float64: so many vectors of it from a column on, which are kept in registers and
    written to out from a place on. Rows of flat are width numbers long.
    """

    @intrinsic
    def weighted(typingctx, numbers, start, stop, flat, width, column, out, place):
        signature = types.void(numbers, *[types.intp] * 2, flat, *[types.intp] * 2, out, types.intp)

        def codegen(context, builder, signature, args):
            both, start, stop, flat, width, column, out, place = args
            kinds = signature.args[0].types
            indices, values = (
                _data(context, builder, kind, builder.extract_value(both, i))
                for i, kind in enumerate(kinds)
            )
            table = _data(context, builder, signature.args[3], flat)
            target = _data(context, builder, signature.args[6], out)
            loop = _Loop(context, builder, types.float64, width)
            zero = ir.Constant(loop.vector, [0.0] * loop.lanes)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in range(vectors)]
            one = ir.Constant(start.type, 1)
            with cgutils.for_range_slice(builder, start, stop, one) as (i, _):
                row = builder.load(builder.gep(indices, [i]))
                if row.type.width < width.type.width:
                    row = builder.zext(row, width.type)
                value = builder.load(builder.gep(values, [i]))
                if kinds[1].dtype != types.float64:
                    value = builder.fpext(value, loop.scalar)
                scale, first = loop.spread(value), builder.add(builder.mul(row, width), column)
                for part, kept in enumerate(sums):
                    found = loop.multiply_add(
                        loop.load(table, first, part), scale, builder.load(kept)
                    )
                    builder.store(found, kept)
            for part, kept in enumerate(sums):
                at = loop.at(target, place, part)
                builder.store(builder.load(kept), at, align=loop.size)
            return context.get_dummy_value()

        return signature, codegen

    return weighted


weighted1, weighted2, weighted3 = _weighted(1), _weighted(2), _weighted(3)
weighted4, weighted5, weighted6 = _weighted(4), _weighted(5), _weighted(6)
