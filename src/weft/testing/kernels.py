# SPDX-License-Identifier: MIT
"""What is asked of a kernel: a covariance with its variances and finite slopes; in time, a chain that stands for it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.testing import assert_allclose, assert_array_equal

from weft.arrays import AnyArray, ArrayLike
from weft.kernels.base import Kernel

# Steps of a series, from so short that a difference would keep no digit to so long that everything is forgotten.
STEPS = (1e-8, 3e-4, 0.05, 0.9, 7.0, 300.0)


def check_kernel(kernel: Kernel, places: ArrayLike | None = None, *, tolerance: float = 1e-12) -> None:
    """Raise AssertionError where `kernel` breaks a law of kernels.

    `places` are inputs to try it on, one a row, where not any will do: vertex numbers, latitudes and longitudes. Where it has a
    state-space form, that is held to its covariance, to `tolerance` of the variance (its own error, where it is an approximation).
    """
    if places is None:
        width = next(width for width in (2, 1, 3) if _fits(kernel, width))
        given = np.random.default_rng(0).normal(size=(7, width))
    else:
        given = np.asarray(places, dtype=np.float64)
    # One of them twice.
    check_covariance(kernel, np.concatenate([given, given[-1:]]))
    check_slopes(kernel, given[:3])
    if not _fits(kernel, 1):
        return
    try:
        form = kernel.state_space()
    except TypeError:
        return
    for first, second in zip(STEPS, STEPS[1:] + STEPS[:1], strict=True):
        if form.reversal is None:
            check_trend(kernel, 0.7, first, second)
        else:
            check_stationary(kernel, first, second, tolerance=tolerance)


def _fits(kernel: Kernel, width: int) -> bool:
    try:
        kernel.check_width(width)
    except ValueError:
        return False
    return True


def check_covariance(kernel: Kernel, places: Float[AnyArray, "place dim"]) -> None:
    """Symmetric, positive semi-definite, with `variances` on its diagonal, of any number of places, one by one or at once."""
    gram = np.asarray(kernel(places))
    assert gram.dtype == np.float64, f"the covariance is {gram.dtype}, not float64"
    # Of the largest variance: sums of terms that cancel, far apart, have no more digits.
    rounding = 1e-14 * np.max(np.diagonal(gram))
    assert_allclose(gram, gram.T, rtol=0, atol=rounding, err_msg="the covariance is not symmetric")
    assert_allclose(kernel.variances(places), np.diagonal(gram), rtol=1e-14, err_msg="variances are not the diagonal")
    lowest = np.linalg.eigvalsh(gram)[0]
    assert lowest > -1e-13 * np.trace(gram), f"the covariance has an eigenvalue of {lowest:.2g}"
    assert kernel(places[:0], places).shape == (0, len(places)), "no place at all should give a matrix of no row"
    by_row = jax.jit(jax.vmap(lambda x: kernel.covariance(x[None, :], places)[0]))(places)
    assert_allclose(
        by_row, gram, rtol=1e-13, atol=rounding, err_msg="places one by one give another covariance than all at once"
    )


def check_slopes(kernel: Kernel, places: Float[AnyArray, "place dim"]) -> None:
    """Finite derivatives in the fields and in both places, also where the two are one."""

    def value(kernel: Kernel, x: Array, y: Array) -> Array:
        return kernel.covariance(x[None, :], y[None, :])[0, 0]

    slopes = eqx.filter_jit(lambda k, x, y: eqx.filter_grad(lambda a: value(*a))((k, x, y)))
    for other in places:
        for leaf in jax.tree.leaves(slopes(kernel, jnp.asarray(places[0]), jnp.asarray(other))):
            assert np.all(np.isfinite(leaf)), f"a derivative between {places[0]} and {other} is not finite"


@eqx.filter_jit
def matrices(kernel: Kernel, time: Array, step: Array) -> tuple[Array, Array, Array, Array]:
    form = kernel.state_space()
    return form.readout, form.covariance(time), form.transition(step), form.process_noise(step)


@eqx.filter_jit
def covariances(kernel: Kernel, times: Array, others: Array) -> Array:
    return kernel.covariance(times[:, None], others[:, None])


def _numbers(kernel: Kernel, time: float, step: float) -> list[np.ndarray]:
    return [np.asarray(part) for part in matrices(kernel, jnp.asarray(time), jnp.asarray(step))]


def check_stationary(kernel: Kernel, first: float, second: float, *, tolerance: float = 3e-13) -> None:
    """Steps of a stationary chain compose, keep its covariance, reverse in time as it says, and give the kernel's covariance."""
    readout, covariance, early, early_noise = _numbers(kernel, 0.0, first)
    _, _, late, late_noise = _numbers(kernel, 0.0, second)
    _, _, whole, whole_noise = _numbers(kernel, 0.0, first + second)
    # The rounding of a step of many lengthscales (or turns) is that of an angle, and grows with it.
    rounding = 1e-13 * (1 + first + second)
    assert_allclose(
        late @ early, whole, rtol=0, atol=rounding, err_msg="two transitions are not the one over both steps"
    )
    # Each entry of the noise beside the deviations it belongs to: on a step of 1e-8 the first is 1e-50.
    deviations = np.sqrt(np.diagonal(whole_noise))
    scale = np.outer(deviations, deviations)
    gap = np.abs(late @ early_noise @ late.T + late_noise - whole_noise)
    assert np.all(gap <= (1e-11 + rounding) * scale + 1e-300), "the noises of two steps do not add up to that of both"
    kept = whole @ covariance @ whole.T + whole_noise
    assert_allclose(kept, covariance, rtol=0, atol=1e-13, err_msg="a step does not keep the covariance")

    signs = np.diag(np.asarray(kernel.state_space().reversal))
    turned = signs @ whole @ signs @ covariance
    assert_allclose(turned, covariance @ whole.T, rtol=0, atol=rounding, err_msg="`reversal` does not reverse time")
    backward = np.linalg.solve(covariance, whole @ covariance).T
    remaining = covariance - backward @ covariance @ backward.T
    assert_allclose(signs @ whole_noise @ signs, remaining, rtol=0, atol=10 * rounding, err_msg="the reversed noise")

    correlation = np.where(scale > 0, whole_noise / np.where(scale > 0, scale, 1.0), 0.0)
    assert np.linalg.eigvalsh(correlation)[0] > -1e-12, "process noise is not a covariance"
    expected = covariances(kernel, jnp.zeros(1), jnp.array([0.0, first]))[0]
    found = np.array([readout @ covariance @ readout, readout @ early @ covariance @ readout])
    assert_allclose(found[0], expected[0], rtol=1e-13, err_msg="the chain has another variance than the kernel")
    # Of the variance, and of the angle a long step turns through.
    atol = tolerance * (1 + first)
    assert_allclose(
        found[1], expected[1], rtol=0, atol=atol, err_msg="the chain has another covariance than the kernel"
    )
    _, _, identity, nothing = _numbers(kernel, 0.0, 0.0)
    assert_array_equal(identity, np.eye(len(readout)), err_msg="the transition over no time is not the identity")
    assert not np.any(nothing), "there is noise over no time"


def check_trend(kernel: Kernel, start: float, first: float, second: float) -> None:
    """Steps of a chain that is not stationary compose, and give the kernel's covariance."""
    assert kernel.state_space().reversal is None
    middle, end = start + first, start + first + second
    readout, before, early, early_noise = _numbers(kernel, start, first)
    _, between, late, late_noise = _numbers(kernel, middle, second)
    _, _, whole, whole_noise = _numbers(kernel, start, first + second)
    size = np.max(np.abs(between))
    carried = early @ before @ early.T + early_noise
    assert_allclose(carried, between, rtol=1e-12, atol=1e-12 * size, err_msg="a step leads to another covariance")
    assert_allclose(
        late @ early, whole, rtol=1e-12, atol=1e-12, err_msg="two transitions are not the one over both steps"
    )
    deviations = np.sqrt(np.diagonal(whole_noise))
    gap = np.abs(late @ early_noise @ late.T + late_noise - whole_noise)
    within = gap <= 1e-11 * np.outer(deviations, deviations) + 1e-300
    assert np.all(within), "the noises of two steps do not add up to that of both"
    expected = covariances(kernel, jnp.array([start, middle]), jnp.array([end]))
    for found, wanted in (
        (readout @ whole @ before @ readout, expected[0, 0]),
        (readout @ late @ between @ readout, expected[1, 0]),
    ):
        assert_allclose(
            found, wanted, rtol=1e-11, atol=1e-12, err_msg="the chain has another covariance than the kernel"
        )
