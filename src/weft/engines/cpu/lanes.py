# SPDX-License-Identifier: MIT
"""Short loops, eight numbers at a time: LLVM by itself leaves loops of fewer than 32 numbers to scalar code."""

from typing import no_type_check

import numpy as np

from weft.engines.cpu.inlined import inlined, intrinsic

LANES = 8
HALF = LANES // 2
BYTES = np.uintp(8 * LANES)


@no_type_check
def _in_lanes(count, combine):
    """`combine` of a number and `count` numbers at each of two addresses, stored at the second address."""

    @intrinsic
    def operation(typing_context, number, source, target):
        from llvmlite import ir
        from numba import types

        kind = ir.VectorType(ir.DoubleType(), count)

        def generate(context, builder, signature, values):
            number, source, target = values
            nothing, zero = ir.Constant(kind, ir.Undefined), ir.Constant(ir.IntType(32), 0)
            first = builder.insert_element(nothing, number, zero)
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
            spread = builder.shuffle_vector(first, nothing, everywhere)
            source, target = (builder.inttoptr(address, kind.as_pointer()) for address in (source, target))
            builder.store(combine(builder, spread, source, target), target, align=8)
            return context.get_dummy_value()

        return types.void(types.float64, types.uintp, types.uintp), generate

    return operation


@no_type_check
def _scaled(builder, number, source, target):
    return builder.fmul(number, builder.load(source, align=8))


@no_type_check
def _less_scaled(builder, number, source, target):
    product = builder.fmul(number, builder.load(source, align=8), flags=("contract",))
    return builder.fsub(builder.load(target, align=8), product, flags=("contract",))


_scale_all, _scale_half = _in_lanes(LANES, _scaled), _in_lanes(HALF, _scaled)
_subtract_all, _subtract_half = _in_lanes(LANES, _less_scaled), _in_lanes(HALF, _less_scaled)


@inlined
@no_type_check
def scale(length, number, source, target):
    """Write number times source to the target."""
    one, other = source.ctypes.data, target.ctypes.data
    for _ in range(length // LANES):
        _scale_all(number, one, other)
        one += BYTES
        other += BYTES
    if length % LANES >= HALF:
        _scale_half(number, one, other)
    for j in range(length // HALF * HALF, length):
        target[j] = number * source[j]


@inlined
@no_type_check
def subtract_padded(length, number, source, target):
    """Subtract number times source from the target, and perhaps so on up to a whole number of HALF: both must have room."""
    one, other = source.ctypes.data, target.ctypes.data
    for _ in range(length // LANES):
        _subtract_all(number, one, other)
        one += BYTES
        other += BYTES
    if length % LANES > HALF:
        _subtract_all(number, one, other)
    elif length % LANES > 0:
        _subtract_half(number, one, other)
