# SPDX-License-Identifier: MIT
"""The log normaliser as one JAX operation with its own derivative."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.buffer_callback import buffer_callback
from jaxtyping import Array, Float

from weft.arrays import AnyArray, is_concrete
from weft.engines.cpu.interrupts import interrupt_again, watch_for_interrupts
from weft.engines.cpu.problem import make_problem
from weft.engines.cpu.series import Solver
from weft.state_space.chain import Chain, Rows

Leaves = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Form:
    """Everything about a call that is not a number to differentiate: the tree of its operands, and who solves the problem they make."""

    tree: Any
    solver: Solver


def log_normaliser(
    solver: Solver, chain: Chain, weights: Float[AnyArray, "place bottleneck"], rows: Rows
) -> Float[Array, ""]:
    """See `Engine`. The solver is a value, by which compiled functions are found again."""
    leaves, tree = jax.tree.flatten((chain, weights, rows))
    return _operation(Form(tree, solver), tuple(leaves))


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

    On JAX's own buffers. `jax.pure_callback` hands over copies instead: made on a thread of JAX's pool, for which the callback, on
    the only such thread where there is one processor, would wait for ever, and in single precision where the caller has double
    precision on for a while only (`jax.enable_x64`).
    """
    watch_for_interrupts()
    # What is still to be compiled is, here: on JAX's thread Ctrl-C would not reach it, and its time would be taken for the call's.
    _, weights, rows = jax.tree.unflatten(form.tree, leaves)
    form.solver.load(rows, weights.shape[1])
    call = buffer_callback(
        functools.partial(_on_buffers, function, form),
        tuple(jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes),
        vmap_method="sequential",
    )
    floats = _differentiable(leaves)
    return call(*(_differentiated_no_further(leaf) if k in floats else leaf for k, leaf in enumerate(leaves)))


@jax.custom_jvp
def _differentiated_no_further(leaf: Float[Array, "..."]) -> Float[Array, "..."]:
    """The same, and a clear sentence where the gradient is to be differentiated again."""
    return leaf


@_differentiated_no_further.defjvp
def _refuse(primals: Leaves, tangents: Leaves) -> tuple[Any, Any]:
    raise TypeError("the engine 'cpu' can be differentiated once only; for second derivatives use engine='scan'")


def _on_buffers(
    function: Callable[..., tuple[np.ndarray, ...]], form: Form, context: Any, results: tuple[Any, ...], *leaves: Any
) -> None:
    try:
        found = function(form, *leaves)
    except KeyboardInterrupt:
        interrupt_again()
        raise
    for result, array in zip(results, found, strict=True):
        np.asarray(result)[...] = array


def _value(form: Form, *leaves: Any) -> tuple[Float[np.ndarray, ""]]:
    problem = make_problem(*jax.tree.unflatten(form.tree, [np.asarray(leaf) for leaf in leaves]))
    return (np.asarray(form.solver.log_normaliser(problem)),)


def _differentiable(leaves: Leaves) -> list[int]:
    return [number for number, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]


def _value_and_gradient(form: Form, *leaves: Any) -> tuple[np.ndarray, ...]:
    """The value, then the gradient in every leaf of floats, in order."""
    chain, weights, rows = jax.tree.unflatten(form.tree, [np.asarray(leaf) for leaf in leaves])
    total, gradient = form.solver.value_and_gradient(make_problem(chain, weights, rows))
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
