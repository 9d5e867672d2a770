# SPDX-License-Identifier: MIT
"""SciPy's own BLAS and LAPACK, callable from compiled code that can be cached on disk.

An address baked into compiled code would be wrong in the next process, so every kernel is handed the addresses (`ROUTINES`) and calls
through them. Matrices are flat row-major arrays; Fortran sees their transposes, and the wrappers below account for that.
"""

import ctypes
from typing import NamedTuple, no_type_check

import numpy as np
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack
import threadpoolctl
from jaxtyping import Float

from weft.engines.cpu.inlined import inlined, intrinsic

# OpenBLAS for processors with AVX-512 multiplies small matrices without packing them first, at full speed, where a product has at
# most so many multiplications, or (with the second matrix transposed) its result so many numbers. A larger product goes through
# faster in panels that small, as long as they have so many rows: measured at 48 against 56 GFlop/s.
UNPACKED_ARCHITECTURES = {"SkylakeX", "Cooperlake", "SapphireRapids"}
MOST_UNPACKED = 1_000_000
MOST_UNPACKED_TRANSPOSED = 1_200
LEAST_PANEL = 8
# Rows of a matrix's square computed together.
GRAM_PANEL = 24


class Routines(NamedTuple):
    """Addresses of the routines in this process, and whether their products are faster in small panels (1) or whole (0)."""

    dgemm: int
    dsyrk: int
    dtrsm: int
    dpotrf: int
    dgeqrf: int
    panels: int


_NAME = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _address(module: str, name: str) -> int:
    capsule = getattr(scipy.linalg, module).__pyx_capi__[name]
    if "int *" not in repr(capsule):
        raise ImportError(f"SciPy's {name} does not take 32-bit integers ({capsule!r}); use another engine than 'cpu'")
    return _POINTER(capsule, _NAME(capsule))


def _faster_in_panels() -> bool:
    """By the library's own name for its kernels: a measurement would make the last digits depend on the moment."""
    return any(library.get("architecture") in UNPACKED_ARCHITECTURES for library in threadpoolctl.threadpool_info())


ROUTINES = Routines(
    dgemm=_address("cython_blas", "dgemm"),
    dsyrk=_address("cython_blas", "dsyrk"),
    dtrsm=_address("cython_blas", "dtrsm"),
    dpotrf=_address("cython_lapack", "dpotrf"),
    dgeqrf=_address("cython_lapack", "dgeqrf"),
    panels=int(_faster_in_panels()),
)

PLAIN = np.uint8(ord("N"))
TRANSPOSED = np.uint8(ord("T"))
LOWER = np.uint8(ord("L"))
UPPER = np.uint8(ord("U"))
RIGHT = np.uint8(ord("R"))


@intrinsic
@no_type_check
def call_fortran(typing_context, address, arguments):
    """Call the Fortran routine at `address`: pointers (unsigned) as they are, every number by reference, integers as 32 bits."""
    from llvmlite import ir
    from numba import types

    signature = types.void(address, arguments)

    def generate(context, builder, signature, values):
        anything = ir.IntType(8).as_pointer()
        function, packed = values
        references = []
        for position, kind in enumerate(signature.args[1].types):
            value = builder.extract_value(packed, position)
            if types.unliteral(kind) == types.uintp:
                references.append(builder.inttoptr(value, anything))
                continue
            if types.unliteral(kind) == types.int64:
                value = builder.trunc(value, ir.IntType(32))
            with builder.goto_entry_block():
                slot = builder.alloca(value.type)
            builder.store(value, slot)
            references.append(builder.bitcast(slot, anything))
        routine = ir.FunctionType(ir.VoidType(), [anything] * len(references)).as_pointer()
        builder.call(builder.inttoptr(function, routine), references)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
@no_type_check
def borrow(typing_context, arrays):
    """The same array, or tuple of arrays, without a share in its ownership.

    Every slice of an owned array counts references atomically, which costs a kernel on small matrices a fifth of its time, and more
    where two threads count on the same array. The caller keeps the arrays alive.
    """
    from llvmlite import ir
    from numba import types

    def strip(builder, kind, value):
        if isinstance(kind, types.Array):
            # The first two fields of an array are its memory's owner and its Python object.
            for field in (0, 1):
                nobody = ir.Constant(value.type.elements[field], None)
                value = builder.insert_value(value, nobody, field)
        elif isinstance(kind, types.BaseTuple):
            for field, inner in enumerate(kind.types):
                value = builder.insert_value(value, strip(builder, inner, builder.extract_value(value, field)), field)
        return value

    def generate(context, builder, signature, values):
        return strip(builder, signature.args[0], values[0])

    return arrays(arrays), generate


class Factor(NamedTuple):
    """A factor of a product: a matrix in a flat row-major array, how far its rows are apart, and whether its transpose is meant."""

    numbers: Float[np.ndarray, " number"]
    stride: int
    is_transposed: bool


@inlined
@no_type_check
def plain(numbers, stride):
    return Factor(numbers, stride, False)


@inlined
@no_type_check
def transposed(numbers, stride):
    return Factor(numbers, stride, True)


@inlined
@no_type_check
def multiply(routines, shape, alpha, left, right, beta, target):
    """target[m, n] = alpha left[m, k] right[k, n] + beta target for `shape` (m, n, k); `target` is its numbers and its stride."""
    m, n, k = shape
    numbers, stride = target
    height = m
    if routines.panels:
        # Divisions only where they matter: small products are many.
        if right.is_transposed and not left.is_transposed:
            if m * n > MOST_UNPACKED_TRANSPOSED and n * LEAST_PANEL <= MOST_UNPACKED_TRANSPOSED:
                height = MOST_UNPACKED_TRANSPOSED // n // 4 * 4
        elif m * n * k > MOST_UNPACKED and n * k * LEAST_PANEL <= MOST_UNPACKED:
            height = MOST_UNPACKED // (n * k) // 4 * 4
    for first in range(0, m, height):
        call_fortran(
            routines.dgemm,
            (
                TRANSPOSED if right.is_transposed else PLAIN,
                TRANSPOSED if left.is_transposed else PLAIN,
                n,
                min(height, m - first),
                k,
                alpha,
                right.numbers.ctypes.data,
                right.stride,
                left.numbers[first if left.is_transposed else first * left.stride :].ctypes.data,
                left.stride,
                beta,
                numbers[first * stride :].ctypes.data,
                stride,
            ),
        )


@inlined
@no_type_check
def add_gram(routines, n, k, alpha, a, beta, c):
    """Lower triangle of c[n, n] = alpha a' a + beta c for a[k, n]; in panels, a little beyond it."""
    if not routines.panels:
        call_fortran(
            routines.dsyrk,
            (UPPER, PLAIN, n, k, alpha, a.ctypes.data, n, beta, c.ctypes.data, n),
        )
        return
    for first in range(0, n, GRAM_PANEL):
        height = min(GRAM_PANEL, n - first)
        shape = (height, first + height, k)
        multiply(routines, shape, alpha, transposed(a[first:], n), plain(a, n), beta, (c[first * n :], n))


@inlined
@no_type_check
def factor(routines, n, a, info):
    """Upper triangle of a[n, n] becomes C with C' C = a; whether that worked."""
    call_fortran(routines.dpotrf, (LOWER, n, a.ctypes.data, n, info.ctypes.data))
    return info[0] == 0


@inlined
@no_type_check
def solve_any(routines, m, n, c, b):
    """b[m, n] becomes C^-1 b for upper triangular C[m, m] of any condition."""
    call_fortran(
        routines.dtrsm,
        (RIGHT, LOWER, PLAIN, PLAIN, n, m, 1.0, c.ctypes.data, m, b.ctypes.data, n),
    )


@inlined
@no_type_check
def solve_any_transposed(routines, m, n, c, b):
    """b[m, n] becomes C'^-1 b for upper triangular C[m, m] of any condition."""
    call_fortran(
        routines.dtrsm,
        (RIGHT, LOWER, TRANSPOSED, PLAIN, n, m, 1.0, c.ctypes.data, m, b.ctypes.data, n),
    )


@inlined
@no_type_check
def orthogonalise(routines, m, n, stack, stride, work):
    """QR of the column-major stack[m, n] in place: R in its upper triangle."""
    room = len(work.lapack)
    call_fortran(
        routines.dgeqrf,
        (
            m,
            n,
            stack.ctypes.data,
            stride,
            work.reflectors.ctypes.data,
            work.lapack.ctypes.data,
            room,
            work.info.ctypes.data,
        ),
    )
