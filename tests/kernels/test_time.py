# SPDX-License-Identifier: MIT
"""State-space forms against 200-digit chains, their own laws, and the covariances they stand for."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.kernels import high_precision
from weft.kernels import (
    EQ,
    Constant,
    Cosine,
    Graph,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Matern72,
    OnSphere,
    Periodic,
    RationalQuadratic,
    Wiener,
)
from weft.kernels.eq_in_time import CHAINS, EQForm
from weft.kernels.periodic_in_time import PeriodicForm
from weft.testing.kernels import check_stationary, check_trend

MATERNS = [Matern12, Matern32, Matern52, Matern72]
# In lengthscales. None is near a zero of an entry, where no relative error is small.
RATIOS = np.array([1e-8, 3.1e-7, 2.3e-5, 4.1e-4, 7.7e-3, 0.049, 0.31, 0.83, 1.9, 3.7, 11.3, 64.0, 230.0, 1e3])

STATIONARY = {
    "matern12": Matern12(0.7, 1.3),
    "matern32": Matern32(0.7, 1.3),
    "matern52": Matern52(1.7, 0.4),
    "matern72": Matern72(0.9, 2.1),
    "eq": EQ(1.1, 0.8),
    "periodic": Periodic(1.6, 0.9, 0.7, order=5),
    "cosine": Cosine(2.3, 0.6),
    "constant": Constant(1.9),
    "sum": Matern12(0.3, 0.5) + 0.7 * Matern52(2.0, 1.1),
    "product": Matern32(0.8, 1.2) * Matern52(1.3, 0.9),
    "damped wave": 1.4 * (Matern12(3.0) * Cosine(1.2)),
}
TRENDS = {
    "linear": Linear(0.8, -0.6),
    "wiener": Wiener(1.7, -2.5),
    "mixed": Linear(0.4, 0.3) + 2.0 * Wiener(0.6, -3.0) + Matern32(0.9),
}
APPROXIMATE = ("eq", "periodic")


@eqx.filter_jit
def over_steps(kernel, steps):
    form = kernel.state_space()
    return jax.vmap(form.transition)(steps), jax.vmap(form.process_noise)(steps)


# --- precision -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", range(4))
def test_matern_matrices_have_twelve_digits_in_every_entry(order):
    lengthscale = 0.37
    steps = RATIOS * lengthscale
    transitions, noises = over_steps(MATERNS[order](lengthscale, 2.5), jnp.asarray(steps))
    drift = high_precision.companion(order)
    covariance = high_precision.stationary(drift)
    assert_allclose(
        MATERNS[order](lengthscale).state_space().covariance(jnp.zeros(())),
        high_precision.as_array(covariance),
        rtol=1e-15,
    )
    for step, transition, noise in zip(steps, transitions, noises, strict=True):
        with mp.workdps(high_precision.DIGITS):
            u = mp.sqrt(2 * order + 1) * mp.mpf(float(step)) / mp.mpf(lengthscale)
        exact_transition, exact_noise = high_precision.step_matrices(drift, covariance, u)
        assert high_precision.relative_error(transition, exact_transition) < 1e-12, step
        assert high_precision.relative_error(noise, exact_noise) < 1e-12, step


# A chain of 10 loses a digit in entries of the transition that are tiny beside its others.
@pytest.mark.parametrize(("order", "tolerance"), [(2, 1e-12), (3, 1e-12), (6, 1e-12), (10, 1e-11)])
def test_eq_matrices_have_twelve_digits_in_every_entry(order, tolerance):
    lengthscale = 0.37
    steps = RATIOS[:: order // 5 + 1] * lengthscale
    transitions, noises = over_steps(EQ(lengthscale, order=order), jnp.asarray(steps))
    *rates, damping = CHAINS[order]
    drift = high_precision.damped_chain(rates, damping)
    covariance = high_precision.stationary(drift)
    assert_allclose(high_precision.as_array(covariance), np.eye(order), atol=1e-15)
    for step, transition, noise in zip(steps, transitions, noises, strict=True):
        with mp.workdps(high_precision.DIGITS):
            u = mp.mpf(float(step)) / mp.mpf(lengthscale)
        exact_transition, exact_noise = high_precision.step_matrices(drift, covariance, u)
        if u < 16:
            assert high_precision.relative_error(transition, exact_transition) < tolerance, step
            assert high_precision.relative_error(noise, exact_noise) < tolerance, step
        else:
            # The rounding of u alone turns each pair of poles by 1e-14: beside the largest entry, then.
            largest = max(abs(entry) for entry in exact_transition)
            assert high_precision.relative_error(transition, exact_transition, largest) < tolerance, step
            assert_allclose(noise, np.eye(order), rtol=0, atol=1e-15)


def test_product_noise_has_twelve_digits_in_every_entry():
    steps = RATIOS[:-2]
    transitions, noises = over_steps(Matern32(1.0) * Matern52(0.8), jnp.asarray(steps))
    chains = [(high_precision.companion(order), rate) for order, rate in ((1, 1.0), (2, 0.8))]
    covariances = [high_precision.stationary(drift) for drift, _ in chains]
    covariance = high_precision.kronecker(*covariances)
    for step, transition, noise in zip(steps, transitions, noises, strict=True):
        with mp.workdps(high_precision.DIGITS):
            first, second = (
                high_precision.exponential(drift * (mp.sqrt(2 * drift.rows - 1) * mp.mpf(float(step)) / mp.mpf(scale)))
                for drift, scale in chains
            )
            exact_transition = high_precision.kronecker(first, second)
            exact_noise = covariance - exact_transition * covariance * exact_transition.T
        assert high_precision.relative_error(transition, exact_transition) < 1e-12, step
        assert high_precision.relative_error(noise, exact_noise) < 1e-12, step


@pytest.mark.parametrize("order", range(4))
def test_noise_of_the_shortest_steps_is_that_of_repeated_integrals(order):
    """Correlations of the noise approach those of repeated integrals of white noise, which cancellation destroys."""
    _, noise = over_steps(MATERNS[order](1.0), jnp.array([1e-9]))
    deviations = np.sqrt(np.diagonal(noise[0]))
    left = order - np.arange(order + 1)
    expected = np.sqrt(np.outer(2 * left + 1, 2 * left + 1)) / (left[:, None] + left[None, :] + 1)
    assert_allclose(noise[0] / np.outer(deviations, deviations), expected, rtol=1e-7)  # first order in the step
    assert np.linalg.eigvalsh(noise[0] / np.outer(deviations, deviations))[0] > 0


def test_rotations_keep_their_digits_over_many_periods():
    period, lengthscale, order = 0.731, 0.8, 4
    steps = RATIOS * period
    turned, _ = over_steps(Cosine(period), jnp.asarray(steps))
    harmonics, noises = over_steps(Periodic(period, lengthscale, order=order), jnp.asarray(steps))
    for step, wave, many in zip(steps, turned, harmonics, strict=True):
        for j in range(1, order + 1):
            with mp.workdps(40):
                angle = 2 * mp.pi * j * mp.mpf(float(step)) / mp.mpf(period)
                cosine, sine = float(mp.cos(angle)), float(mp.sin(angle))
            block = many[2 * j - 1 : 2 * j + 1, 2 * j - 1 : 2 * j + 1]
            # Where a sine is not small its rounding is that of the angle, at most j pi.
            assert_allclose(block, [[cosine, -sine], [sine, cosine]], rtol=1e-14, atol=3e-15 * min(1, j * step))
            if j == 1:
                assert_allclose(wave, block, rtol=1e-15)
    assert not np.any(noises)


@pytest.mark.parametrize("lengthscale", [0.027, 0.1, 0.6, 3.0, 40.0, 1e6])
def test_harmonics_have_the_weights_of_bessel_functions(lengthscale):
    order = 7
    with mp.workdps(60):
        x = 1 / mp.mpf(lengthscale) ** 2
        weights = [(1 if j == 0 else 2) * mp.besseli(j, x) for j in range(order + 1)]
        expected = [float(weight / sum(weights)) for weight in weights]
    readout = PeriodicForm(order, 1.3, lengthscale).readout
    assert_allclose(np.concatenate([readout[:1], readout[1::2]]) ** 2, expected, rtol=1e-13)
    assert not np.any(readout[2::2])


# --- derivatives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [Matern12, Matern52, Matern72, EQ])
def test_derivatives_in_step_and_lengthscale_have_eleven_digits(kernel):
    if kernel is EQ:
        *rates, damping = CHAINS[6]
        drift, root = high_precision.damped_chain(rates, damping), 1
    else:
        order = MATERNS.index(kernel)
        drift, root = high_precision.companion(order), mp.sqrt(2 * order + 1)
    covariance = high_precision.stationary(drift)
    lengthscale = 0.37
    steps = jnp.asarray(np.concatenate([[0.0], RATIOS[[0, 2, 4, 6, 8, 10]] * lengthscale]))

    in_step = eqx.filter_jit(lambda s: over_steps_jacobian(kernel, jnp.asarray(lengthscale), s, 1))(steps)
    in_lengthscale = eqx.filter_jit(lambda s: over_steps_jacobian(kernel, jnp.asarray(lengthscale), s, 0))(steps)
    for i, step in enumerate(steps):
        with mp.workdps(high_precision.DIGITS):
            rate = root / mp.mpf(lengthscale)
            u = rate * mp.mpf(float(step))
            exact = high_precision.step_derivatives(drift, covariance, u)
            for values, slopes, exact_slope in zip(in_step, in_lengthscale, exact, strict=True):
                if step == 0:
                    # The difference straddles it, which leaves the square of its width in the zeros.
                    assert high_precision.relative_error(values[i], exact_slope * rate, beside=1) < 1e-11
                    assert not np.any(slopes[i])
                    continue
                assert high_precision.relative_error(values[i], exact_slope * rate) < 1e-11, step
                assert high_precision.relative_error(slopes[i], -exact_slope * u / lengthscale) < 1e-11, step


def over_steps_jacobian(kernel, lengthscale, steps, argument):
    def both(scale, step):
        form = kernel(scale).state_space()
        return form.transition(step), form.process_noise(step)

    return jax.vmap(jax.jacfwd(both, argnums=argument), in_axes=(None, 0))(lengthscale, steps)


@pytest.mark.parametrize("name", ["matern72", "eq", "periodic", "product", "damped wave", "mixed"])
def test_reverse_mode_equals_forward_mode_and_is_finite_from_step_zero_to_endless(name):
    kernel = (STATIONARY | TRENDS)[name]
    steps = jnp.array([0.0, 1e-9, 0.2, 0.8, 1.6, 40.0, 1e5, 1e300])
    # The trends know no endless step: their matrices grow with it.
    steps = steps[:6] if name in TRENDS else steps

    def total(kernel, steps):
        form = kernel.state_space()
        sums = (jnp.sum(jnp.cos(jax.vmap(f)(steps))) for f in (form.transition, form.process_noise))
        return sum(sums) + jnp.sum(form.readout**3) + jnp.sum(form.covariance(jnp.asarray(0.9)) ** 3)

    backward = jax.jit(jax.grad(total, argnums=(0, 1)))(kernel, steps)
    leaves, structure = jax.tree.flatten((kernel, steps))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(backward))
    tangent = [np.cos(1.0 + i + np.arange(np.size(leaf))).reshape(np.shape(leaf)) for i, leaf in enumerate(leaves)]
    _, forward = jax.jit(lambda k, s, t: jax.jvp(total, (k, s), t))(
        kernel, steps, jax.tree.unflatten(structure, tangent)
    )
    expected = sum(np.sum(a * b) for a, b in zip(jax.tree.leaves(backward), tangent, strict=True))
    assert_allclose(forward, expected, rtol=1e-10)


# --- laws ------------------------------------------------------------------------------------------------------------

log_steps = st.floats(-8.0, 3.0).map(lambda exponent: 10.0**exponent)


@pytest.mark.parametrize("name", STATIONARY)
@settings(max_examples=40, deadline=None)
@given(first=log_steps, second=log_steps)
def test_steps_compose_and_time_reverses(name, first, second):
    # An approximate form has the covariance of the kernel only so far: how far is held to its docstring below.
    check_stationary(STATIONARY[name], first, second, tolerance=1.0 if name in APPROXIMATE else 3e-13)


@pytest.mark.parametrize("name", TRENDS)
@settings(max_examples=30, deadline=None)
@given(start=st.floats(-2.0, 5.0), first=log_steps, second=log_steps)
def test_trends_follow_their_covariance(name, start, first, second):
    check_trend(TRENDS[name], start, first, second)


@pytest.mark.parametrize("name", ["matern72", "eq", "periodic", "damped wave"])
def test_units_of_time_do_not_matter(name):
    kernel = STATIONARY[name]
    steps = jnp.asarray(RATIOS)
    for unit in (2.0**-40, 2.0**40):
        scaled = jax.tree_util.tree_map_with_path(
            lambda path, leaf, unit=unit: leaf * unit if is_time(path, name) else leaf, kernel
        )
        for left, right in zip(over_steps(kernel, steps), over_steps(scaled, steps * unit), strict=True):
            # The same rounding to the bit, except where a decay is a quotient.
            assert_allclose(left, right, rtol=1e-11, atol=0)


def is_time(path, name):
    field = path[-1].name
    return field == "period" or (field == "lengthscale" and name != "periodic")


def test_endless_steps_forget_everything():
    for kernel in (Matern12(0.1), Matern72(0.1), EQ(0.1), Matern32(0.1) * EQ(0.3)):
        transitions, noises = over_steps(kernel, jnp.array([1e5, 1e300]))
        assert not np.any(transitions)
        assert_allclose(noises[1], kernel.state_space().covariance(jnp.zeros(())), rtol=1e-15)


def test_a_hundred_thousand_steps_are_one_call():
    steps = np.random.default_rng(3).exponential(size=100_000)
    for kernel in (Matern52(0.8), EQ(1.2)):
        transitions, noises = over_steps(kernel, jnp.asarray(steps))
        stationary = np.asarray(kernel.state_space().covariance(jnp.zeros(())))
        carried = np.einsum("sij,jk,slk->sil", transitions, stationary, transitions)
        assert_allclose(carried + noises, np.broadcast_to(stationary, noises.shape), atol=1e-14)


# --- how good the approximate forms are ------------------------------------------------------------------------------


@eqx.filter_jit
def covariance_of_form(kernel, lags):
    form = kernel.state_space()
    return jax.vmap(lambda lag: form.readout @ form.transition(lag) @ form.covariance(lag) @ form.readout)(lags)


def docstring_row(kernel, label):
    (row,) = re.findall(rf"^ +{re.escape(label)} +(.+)$", kernel.__doc__, flags=re.MULTILINE)
    return [float(number) for number in row.split()]


def test_eq_errors_are_those_its_docstring_states():
    lags = jnp.linspace(0.0, 15.0, 6001)
    orders = docstring_row(EQ, "order")
    stated = docstring_row(EQ, "error")
    assert orders == sorted(CHAINS)
    for order, error in zip(orders, stated, strict=True):
        difference = np.asarray(covariance_of_form(EQ(1.0, order=int(order)), lags) - jnp.exp(-(lags**2) / 2))
        assert_allclose(np.max(np.abs(difference)), error, rtol=0.05)  # stated with two digits
        # The error alternates `order` + 1 times between extremes of one size: no chain of this length does better.
        extremes = [
            difference[i]
            for i in range(1, len(lags) - 1)
            if abs(difference[i]) > 0.999 * np.max(np.abs(difference))
            and abs(difference[i]) >= max(abs(difference[i - 1]), abs(difference[i + 1]))
        ]
        assert len(extremes) >= order + 1
        assert np.all(np.sign(extremes[1:]) == -np.sign(extremes[:-1]))


@pytest.mark.parametrize(("order", "factor"), [(6, 30), (10, 170)])
def test_eq_chains_beat_the_taylor_series_as_claimed(order, factor):
    lags = jnp.linspace(0.0, 15.0, 3001)
    # Of 1 / spectral density = sum_k (w^2 / 2)^k / k!: its roots give the poles, and residues the covariance.
    taylor = np.array([1 / (2**k * float(mp.factorial(k))) for k in range(order + 1)])
    squares = np.roots(taylor[::-1])
    poles = -np.sqrt(-squares)
    residues = 1 / (np.polyval(np.polyder(taylor[::-1]), squares) * -2 * poles)
    series = np.real(np.exp(np.outer(lags, poles)) @ residues) / np.real(np.sum(residues))
    exact = np.exp(-(lags**2) / 2)
    ours = np.max(np.abs(covariance_of_form(EQ(1.0, order=order), lags) - exact))
    assert_allclose(np.max(np.abs(series - exact)) / ours, factor, rtol=0.1)


def test_periodic_errors_are_those_its_docstring_states():
    lags = jnp.linspace(0.0, 1.0, 2001)
    orders = docstring_row(Periodic, "order")
    for lengthscale in (0.25, 0.5, 1.0, 2.0):
        for order, error in zip(orders, docstring_row(Periodic, f"lengthscale {lengthscale:g}"), strict=True):
            values = covariance_of_form(Periodic(1.0, lengthscale, order=int(order)), lags)
            exact = np.exp(-2 * np.sin(np.pi * lags) ** 2 / lengthscale**2)
            assert_allclose(np.max(np.abs(values - exact)), error, rtol=0.06, atol=2e-15)
            assert_allclose(values[0], 1.0, rtol=1e-14)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [
        RationalQuadratic(1.0),
        OnSphere(Matern32(1.0)),
        Graph(np.array([[1.0, -1.0], [-1.0, 1.0]])),
        Matern32(1.0) + 2.0 * RationalQuadratic(1.0),
        Matern32(1.0) * RationalQuadratic(1.0),
    ],
)
def test_kernels_without_a_form_name_those_that_have_one(kernel):
    with pytest.raises(TypeError, match=r"no state-space form.*Matern12.*EQ.*Wiener"):
        kernel.state_space()


def test_products_with_a_trend_have_no_form():
    with pytest.raises(TypeError, match=r"product of Linear and Matern32 .* not stationary"):
        (Linear(1.0) * Matern32(1.0)).state_space()


@pytest.mark.parametrize("kernel", [EQ([1.0, 2.0]), Matern52([1.0, 2.0]), Cosine([1.0, 2.0]), Linear([1.0, 2.0])])
def test_time_is_one_column(kernel):
    with pytest.raises(ValueError, match=r"per column \(there are 2\).*time is one column"):
        kernel.state_space()
    assert type(kernel)(1.5).state_space().size == type(kernel)([1.5]).state_space().size


@pytest.mark.parametrize("order", [1, 11])
def test_eq_knows_its_orders(order):
    with pytest.raises(ValueError, match=r"EQ: order.*2 to 10; it is"):
        EQ(1.0, order=order)


def test_periodic_needs_a_harmonic():
    with pytest.raises(ValueError, match=r"Periodic: order.*1 or more; it is 0"):
        Periodic(1.0, order=0)


def test_wiener_before_its_origin():
    kernel = Wiener(1.0, origin=2.0)
    with pytest.raises(ValueError, match=r"origin 2\.0 but an input is 1\.5"):
        kernel(np.array([3.0, 1.5]))
    assert np.isnan(kernel.state_space().covariance(jnp.asarray(1.5))[0, 0])


def test_forms_refuse_rates_that_are_not_positive():
    with pytest.raises(ValueError, match="EQForm: lengthscale must be positive"):
        EQForm(6, -1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        EQForm(6, 1.0).order = 5
