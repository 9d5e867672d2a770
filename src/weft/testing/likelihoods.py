# SPDX-License-Identifier: MIT
"""What is asked of a likelihood: finite numbers everywhere, expectations that are those of its density, samples that are its own."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.testing import assert_allclose, assert_array_equal

from weft.arrays import AnyArray, ArrayLike
from weft.likelihoods import Likelihood, RowExtras

MEAN = np.array([0.4, -1.3, 2.0, 0.0, -0.2, 1.1])
VARIANCE = np.array([0.5, 3.0, 0.01, 9.0, 1e-6, 1.0])
F = np.array([0.1, -2.0, 1.5, 4.0, -0.5, 0.7])

# Evenly spaced and far out: for smooth functions exact to rounding, for a kink to the square of the spacing.
SCORES = np.linspace(-14.0, 14.0, 40001)[:, None]
WEIGHTS = np.exp(-0.5 * SCORES**2) / np.sum(np.exp(-0.5 * SCORES**2))


def check_likelihood(
    likelihood: Likelihood, values: ArrayLike | None = None, extra: RowExtras | None = None, *, tolerance: float = 1e-6
) -> None:
    """Raise AssertionError where `likelihood` breaks a law of likelihoods.

    `values` are six that may be observed, `extra` what their rows bring; without values some are drawn, for which the class must say
    its `support`. Expectations of the log density are held to sums over a fine grid, to `tolerance`.
    """
    extra = RowExtras() if extra is None else extra
    given = likelihood.sample(3, F, extra) if values is None else np.asarray(values, dtype=np.float64)
    assert given.shape == F.shape, f"there must be six values; their shape is {given.shape}"
    check_expectation(likelihood, given, extra, tolerance=tolerance)
    check_without_variance(likelihood, given, extra)
    check_far_out(likelihood, given, extra)
    check_missing(likelihood, given, extra)
    check_start(likelihood, given, extra)
    if likelihood.support is not None:
        check_samples(likelihood, extra)


@eqx.filter_jit
def everything(
    likelihood: Likelihood, values: AnyArray, f: AnyArray, mean: AnyArray, variance: AnyArray, extra: RowExtras
) -> dict[str, Any]:
    """All that is traced, compiled once."""

    def total(arguments: tuple[Likelihood, AnyArray, AnyArray]) -> tuple[Array, Array]:
        likelihood, mean, variance = arguments
        expected = likelihood.expected_log_density(values, mean, variance, extra)
        return jnp.sum(expected), expected

    gradient, expected = eqx.filter_grad(total, has_aux=True)((likelihood, mean, variance))
    slope = jax.grad(lambda f: jnp.sum(likelihood.log_density(values, f, extra)))(f)
    return {
        "log_density": likelihood.log_density(values, f, extra),
        "slope": slope,
        "expected": expected,
        "gradient": gradient,
    }


def check_expectation(
    likelihood: Likelihood, values: Float[AnyArray, " row"], extra: RowExtras, *, tolerance: float
) -> None:
    """`expected_log_density` is the mean of `log_density` over f."""
    at_nodes = jax.jit(jax.vmap(lambda f: likelihood.log_density(values, f, extra)))(MEAN + np.sqrt(VARIANCE) * SCORES)
    expected = np.sum(WEIGHTS * np.asarray(at_nodes), axis=0)
    found = everything(likelihood, jnp.asarray(values), F, MEAN, VARIANCE, extra)["expected"]
    assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance, err_msg="expected_log_density is not its mean over f"
    )


def check_without_variance(likelihood: Likelihood, values: Float[AnyArray, " row"], extra: RowExtras) -> None:
    """Where f is certain the expectation is the density itself."""
    results = everything(likelihood, jnp.asarray(values), F, F, np.zeros(len(F)), extra)
    # The floor on the variance, 1e-16, times a curvature of some thousands.
    assert_allclose(
        results["expected"],
        results["log_density"],
        rtol=1e-10,
        atol=1e-10,
        err_msg="expected_log_density at variance 0",
    )


def check_far_out(likelihood: Likelihood, values: Float[AnyArray, " row"], extra: RowExtras) -> None:
    """Finite numbers and slopes where a search for parameters may stray."""
    for mean in (-50.0, 50.0):
        for variance in (0.0, 1e-12, 100.0):
            means, variances = np.full(len(F), mean), np.full(len(F), variance)
            results = everything(likelihood, jnp.asarray(values), means, means, variances, extra)
            for what, found in results.items():
                finite = all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))
                assert finite, f"{what} is not finite where f is {mean:g} with variance {variance:g}"


def check_missing(likelihood: Likelihood, values: Float[AnyArray, " row"], extra: RowExtras) -> None:
    """`check` accepts the values, and NaN for one that is missing."""
    likelihood.check(values, extra)
    missing = np.arange(len(values)) == 2
    likelihood.check(
        np.where(missing, np.nan, values), jax.tree.map(lambda array: np.where(missing, np.nan, array), extra)
    )


def check_start(likelihood: Likelihood, values: Float[AnyArray, " row"], extra: RowExtras) -> None:
    """`initial` gives a proper Gaussian for each value."""
    mean, precision = (np.asarray(part) for part in likelihood.initial(values, extra))
    assert np.all(np.isfinite(mean)), f"initial gives the means {mean}"
    assert np.all(precision > 0), f"initial gives the precisions {precision}"


def check_samples(likelihood: Likelihood, extra: RowExtras, *, num: int = 2000) -> None:
    """Samples come again with the seed, pass `check`, and lie about its quantiles as often as they should."""
    f = np.broadcast_to(F, (num, len(F)))
    samples = likelihood.sample(7, f, extra)
    assert samples.shape == f.shape, f"samples of f of shape {f.shape} have the shape {samples.shape}"
    assert_array_equal(
        likelihood.sample(np.random.default_rng(7), f, extra), samples, err_msg="a seed gives other samples"
    )
    likelihood.check(samples[0], extra)
    for probability in (0.1, 0.5, 0.9):
        quantile = likelihood.quantile(probability, F, np.zeros(len(F)), extra)
        below, at_most = np.mean(samples < quantile, axis=0), np.mean(samples <= quantile, axis=0)
        # Five standard errors; of counts a whole step of probability may lie on the quantile.
        margin = 5 * np.sqrt(probability * (1 - probability) / num) + 1e-3
        assert np.all(at_most > probability - margin), f"too few samples up to the quantile {probability}"
        assert np.all(below < probability + margin), f"too many samples below the quantile {probability}"
