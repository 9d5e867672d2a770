# SPDX-License-Identifier: MIT
"""The log normaliser as one JAX operation with its own derivative."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from weft.arrays import AnyArray, is_concrete, require_float64
from weft.engines.cpu import series
from weft.engines.cpu.interrupts import interrupt_again, watch_for_interrupts
from weft.engines.cpu.problem import make_problem
from weft.engines.cpu.threads import available_threads, num_processors
from weft.state_space.chain import Chain, Rows

Leaves = tuple[Any, ...]
# Under the length up to which JAX copies an argument of a callback at once (100 kB).
PIECE_BYTES = 2**16


class Form:
    """Everything about a call that is not a number to differentiate: the tree of its operands and the number of threads."""

    def __init__(self, tree: Any, threads: int):
        self.tree = tree
        self.threads = threads

    def __hash__(self) -> int:
        return hash((self.tree, self.threads))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.tree == other.tree and self.threads == other.threads


def log_normaliser(
    chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows, *, threads: int | None = None
) -> Float[Array, ""]:
    """See `Engine`. Raises FilterFailure (inside `jit`, JAX's runtime error with its message) where the filter breaks down.

    Memory beyond the inputs is bounded by `sweeps.WHOLE_BUDGET` or O(sqrt(T) state^2), whichever is more. With two threads (the
    default where there are two processors) a stationary chain is run from both ends: see `series` for what that means for gradients
    in the chain's matrices one by one.
    """
    require_float64()
    leaves, tree = jax.tree.flatten((chain, weights, rows))
    return _operation(Form(tree, available_threads(threads)), tuple(leaves))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _operation(form: Form, leaves: Leaves) -> Float[Array, ""]:
    if all(map(is_concrete, leaves)):
        # On the caller's own thread: Ctrl-C works between slices, and an error keeps its type.
        return jnp.asarray(_value(form, *leaves)[0])
    return _call_back(_value, form, [()], leaves)[0]


def _call_back(
    function: Callable[..., tuple[np.ndarray, ...]], form: Form, shapes: Sequence[tuple[int, ...]], leaves: Leaves
) -> tuple[Float[Array, "..."], ...]:
    """`function` as part of a compiled computation; its results are floats of these shapes.

    Floats cross over as pairs of 32-bit words. JAX makes the call on a thread of its own, where double precision is off
    if the caller has it on for a while only (`jax.enable_x64`), and would round every number to single precision.
    """
    watch_for_interrupts()
    floats = tuple(_differentiable(leaves))
    words = [
        jax.lax.bitcast_convert_type(_differentiated_no_further(leaf), np.uint32) if number in floats else leaf
        for number, leaf in enumerate(leaves)
    ]
    pieces = [in_pieces(array) for array in words]
    results = jax.pure_callback(
        functools.partial(_on_pieces, function, form, floats, tuple(array.shape for array in words)),
        tuple(jax.ShapeDtypeStruct((*shape, 2), np.uint32) for shape in shapes),
        pieces,
        vmap_method="sequential",
    )
    return tuple(jax.lax.bitcast_convert_type(result, np.float64) for result in results)


@jax.custom_jvp
def _differentiated_no_further(leaf: Float[Array, "..."]) -> Float[Array, "..."]:
    """The same; words have no derivative, and JAX would take that of the gradient for zero without a word."""
    return leaf


@_differentiated_no_further.defjvp
def _refuse(primals: Leaves, tangents: Leaves) -> tuple[Any, Any]:
    raise TypeError("the engine 'cpu' can be differentiated once only; for second derivatives use engine='scan'")


def in_pieces(array: AnyArray) -> list[AnyArray]:
    """The array itself; where there is one processor, its numbers in short pieces.

    JAX hands a callback copies of its arguments. Long ones are copied on a thread of its pool, and where the pool has one thread,
    which runs the callback, the callback would wait for itself for ever. Short ones are copied at once.
    """
    length = PIECE_BYTES // array.dtype.itemsize
    if num_processors() > 1 or array.size <= length:
        return [array]
    return jnp.split(jnp.ravel(array), list(range(length, array.size, length)))


def _on_pieces(
    function: Callable[..., tuple[np.ndarray, ...]],
    form: Form,
    floats: tuple[int, ...],
    shapes: tuple[tuple[int, ...], ...],
    pieces: list[list[Any]],
) -> tuple[np.ndarray, ...]:
    leaves = [
        np.ascontiguousarray(np.concatenate(parts) if len(parts) > 1 else parts[0]).reshape(shape)
        for parts, shape in zip(pieces, shapes, strict=True)
    ]
    for number in floats:
        leaves[number] = leaves[number].view(np.float64)[..., 0]
    try:
        results = function(form, *leaves)
    except KeyboardInterrupt:
        interrupt_again()
        raise
    return tuple(np.asarray(result, order="C")[..., None].view(np.uint32) for result in results)


def _value(form: Form, *leaves: Any) -> tuple[Float[np.ndarray, ""]]:
    problem = make_problem(*jax.tree.unflatten(form.tree, [np.asarray(leaf) for leaf in leaves]))
    return (np.asarray(series.log_normaliser(problem, form.threads)),)


def _differentiable(leaves: Leaves) -> list[int]:
    return [number for number, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]


def _value_and_gradient(form: Form, *leaves: Any) -> tuple[np.ndarray, ...]:
    """The value, then the gradient in every leaf of floats, in order."""
    chain, weights, rows = jax.tree.unflatten(form.tree, [np.asarray(leaf) for leaf in leaves])
    total, gradient = series.value_and_gradient(make_problem(chain, weights, rows), form.threads)
    by_component = [array for part in gradient.components for array in part]
    start = [] if gradient.start is None else list(gradient.start)
    return (np.asarray(total), *by_component, *start, gradient.weights, gradient.value, gradient.precision)


def _forward(form: Form, leaves: Leaves) -> tuple[Float[Array, ""], tuple]:
    if all(map(is_concrete, leaves)):
        results = tuple(jnp.asarray(array) for array in _value_and_gradient(form, *leaves))
    else:
        shapes = [leaves[number].shape for number in _differentiable(leaves)]
        results = _call_back(_value_and_gradient, form, [(), *shapes], leaves)
    value, *gradient = results
    return value, (tuple(gradient), leaves)


def _backward(form: Form, residuals: tuple, cotangent: Float[Array, ""]) -> tuple[Leaves]:
    gradient, leaves = residuals
    cotangents: list[Any] = [None] * len(leaves)
    for number, leaf in enumerate(leaves):
        cotangents[number] = np.zeros(leaf.shape, dtype=jax.dtypes.float0)
    for number, array in zip(_differentiable(leaves), gradient, strict=True):
        cotangents[number] = cotangent * array
    return (tuple(cotangents),)


_operation.defvjp(_forward, _backward)
