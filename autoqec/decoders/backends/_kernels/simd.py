"""Vectors of `LANES` single-precision numbers as numba values.

numba leaves vectorising to LLVM's loop pass, which gives up on short loops over several arrays. Here each
operation is one LLVM vector instruction, which LLVM splits to the width of the machine (AVX-512, AVX2, NEON).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

LANES = 16
LARGEST = 80.0  # largest argument of exp_minus; its result is still a normal number
# Products may fuse into multiply-adds. Nothing that reorders sums or assumes the absence of NaN.
_FLAGS = ("contract", "nsz", "arcp")


class Vector(types.Type):  # type: ignore[misc]
    """`LANES` values of one scalar type."""

    def __init__(self, scalar: Any) -> None:
        self.scalar = scalar
        super().__init__(name=f"Vector({scalar} x {LANES})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, fe_type: Any) -> None:
        be_type = ir.VectorType(manager.lookup(fe_type.scalar).get_value_type(), LANES)
        super().__init__(manager, fe_type, be_type)


FLOATS = Vector(types.float32)
INTS = Vector(types.int32)


def _lift(context: Any, builder: Any, value: Any, of: Any, to: Any) -> Any:
    """A vector as it is; a scalar repeated in every lane."""
    if of == to:
        return value
    lane = context.cast(builder, value, of, to.scalar)
    vector = ir.VectorType(lane.type, LANES)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), lane, ir.Constant(ir.IntType(32), 0))
    spread = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), spread)


def _binary(symbol: Any, on_floats: str | None, on_ints: str | None) -> None:
    """Give `symbol` (an operator) a meaning on vectors: the named methods of llvmlite's IR builder."""

    @intrinsic
    def lanewise(typingctx: Any, a: Any, b: Any) -> Any:
        kind = a if isinstance(a, Vector) else b
        name = on_floats if kind == FLOATS else on_ints
        if name is None:
            return None

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            left, right = (
                _lift(context, builder, value, of, kind)
                for value, of in zip(args, signature.args, strict=True)
            )
            options = {"flags": _FLAGS} if kind == FLOATS else {}
            return getattr(builder, name)(left, right, **options)

        return kind(a, b), codegen

    @overload(symbol)
    def on_vectors(a, b):  # type: ignore[no-untyped-def]  # numba compares the signatures
        if isinstance(a, Vector) or isinstance(b, Vector):
            return lambda a, b: lanewise(a, b)
        return None


for _symbol, _on_floats, _on_ints in (
    (operator.add, "fadd", "add"),
    (operator.sub, "fsub", "sub"),
    (operator.mul, "fmul", "mul"),
    (operator.truediv, "fdiv", None),
    (operator.and_, None, "and_"),
    (operator.xor, None, "xor"),
    (operator.lshift, None, "shl"),
    (operator.rshift, None, "ashr"),
):
    _binary(_symbol, _on_floats, _on_ints)


def _select(comparison: str) -> Any:
    @intrinsic
    def choose(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            left, right = (
                _lift(context, builder, value, of, FLOATS)
                for value, of in zip(args, signature.args, strict=True)
            )
            return builder.select(builder.fcmp_ordered(comparison, left, right), left, right)

        return FLOATS(a, b), codegen

    return choose


lesser = _select("<")
greater = _select(">")


@intrinsic
def where_not_above(typingctx: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Lane by lane: x where a <= b, else y."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<=", args[0], args[1]), args[2], args[3])

    return FLOATS(FLOATS, FLOATS, FLOATS, FLOATS), codegen


@intrinsic
def negative_lanes(typingctx: Any, a: Any) -> Any:
    """An integer with bit s set when lane s is below zero."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        below = builder.fcmp_ordered("<", args[0], ir.Constant(args[0].type, [0.0] * LANES))
        return builder.zext(builder.bitcast(below, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(FLOATS), codegen


@intrinsic
def sum_lanes(typingctx: Any, a: Any) -> Any:
    """The sum of the lanes, in pairs half a vector apart: always the same order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = args[0]
        size = LANES
        while size > 1:
            size //= 2
            halves = (
                ir.Constant(ir.VectorType(ir.IntType(32), size), [start + i for i in range(size)])
                for start in (0, size)
            )
            undefined = ir.Constant(whole.type, ir.Undefined)
            low, high = [builder.shuffle_vector(whole, undefined, half) for half in halves]
            whole = builder.fadd(low, high)
        return builder.extract_element(whole, ir.Constant(ir.IntType(32), 0))

    return types.float32(FLOATS), codegen


def _cast(build: str, source: Vector, target: Vector) -> Any:
    @intrinsic
    def convert(typingctx: Any, a: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, build)(args[0], context.get_value_type(target))

        return target(source), codegen

    return convert


bits = _cast("bitcast", FLOATS, INTS)
from_bits = _cast("bitcast", INTS, FLOATS)
to_floats = _cast("sitofp", INTS, FLOATS)


@intrinsic
def splat(typingctx: Any, x: Any) -> Any:
    """A scalar in every lane."""
    kind = INTS if isinstance(x, types.Integer) else FLOATS

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _lift(context, builder, args[0], signature.args[0], kind)

    return kind(x), codegen


def _row(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Pointer to row args[1] of the C-contiguous [rows, LANES] array args[0], as a vector."""
    array_type, row_type = signature.args[:2]
    array = context.make_array(array_type)(context, builder, args[0])
    row = context.cast(builder, args[1], row_type, types.intp)
    offset = builder.mul(row, ir.Constant(row.type, LANES))
    kind = context.get_value_type(Vector(array_type.dtype))
    return builder.bitcast(builder.gep(array.data, [offset]), cgutils.voidptr_t), kind


@intrinsic
def load(typingctx: Any, array: Any, row: Any) -> Any:
    """Row `row` of a C-contiguous array of shape [rows, LANES]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, kind = _row(context, builder, signature, args)
        return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=4)

    return Vector(array.dtype)(array, row), codegen


@intrinsic
def store(typingctx: Any, array: Any, row: Any, value: Any) -> Any:
    """Set row `row` of a C-contiguous array of shape [rows, LANES]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, kind = _row(context, builder, signature, args)
        builder.store(args[2], builder.bitcast(pointer, kind.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, row, value), codegen


_F = np.float32
_I = np.int32
_ONE = _F(1.0)
_LOG2E = _F(1.4426950408889634)
_LN2 = _F(0.6931471805599453)
_ROUND = _F(12582912.0)  # 1.5 * 2**23: adding it rounds to an integer held in the low mantissa bits
_TWO_THIRDS = np.int32(0x3F2AAAAB)  # its bits: the mantissa is taken in [2/3, 4/3)
_INVERSE_GUESS = np.int32(0x7EF311C3)


@njit
def exp_minus(a):  # type: ignore[no-untyped-def]
    """exp(-a) for 0 <= a <= LARGEST, relative error 2e-7: 2**n times a minimax polynomial in |r| <= log(2)/2."""
    x = _F(0.0) - a
    t = x * _LOG2E + _ROUND
    n = t - _ROUND
    r = x - n * _LN2
    y = r * _F(8.31252e-3) + _F(4.189016e-2)
    y = y * r + _F(1.6667115e-1)
    y = y * r + _F(4.9999231e-1)
    y = y * (r * r) + (r + _ONE)
    return from_bits(bits(y) + (bits(t) << _I(23)))


@njit
def log(y):  # type: ignore[no-untyped-def]
    """log(y) of positive normal numbers, error 2e-6: a minimax polynomial in the mantissa minus one."""
    whole = bits(y)
    e = (whole - _TWO_THIRDS) >> _I(23)
    m = from_bits(whole - (e << _I(23))) - _ONE
    p = m * _F(-0.20171353) + _F(0.2307386)
    p = p * m - _F(0.24721758)
    p = p * m + _F(0.3316072)
    p = p * m - _F(0.50006475)
    p = p * m + _F(1.00002285)
    return p * m + to_floats(e) * _LN2


@njit
def inverse(y):  # type: ignore[no-untyped-def]
    """1 / y of positive normal numbers by three Newton steps: a third of the time of a vector division."""
    r = from_bits(_INVERSE_GUESS - bits(y))
    r = r + r * (_ONE - y * r)
    r = r + r * (_ONE - y * r)
    return r + r * (_ONE - y * r)
