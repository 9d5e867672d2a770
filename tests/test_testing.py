# SPDX-License-Identifier: MIT
"""The public checks pass what is right, and name what is wrong: one broken copy of a kernel and a likelihood for each law."""

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import weft
from weft.arrays import AnyArray
from weft.domains import positive
from weft.kernels import StateSpace
from weft.likelihoods import Support
from weft.testing import check_kernel, check_likelihood


@pytest.mark.parametrize(
    "kernel",
    [
        weft.Matern52(0.9, 1.7),
        weft.EQ([1.0, 2.0]),
        weft.Wiener(0.8, -1.0) + weft.Linear(0.5, 0.2),
        weft.RationalQuadratic(0.8),
        weft.Matern12(1.3) * weft.Cosine(2.0),
    ],
    ids=str,
)
def test_kernels_of_the_package_pass(kernel):
    check_kernel(kernel)


def test_places_may_be_given():
    check_kernel(weft.Graph(np.array([[1.0, -1.0], [-1.0, 1.0]])), [[0.0], [1.0]])
    check_kernel(weft.EQ(1.1, order=6), tolerance=0.1)
    with pytest.raises(AssertionError, match="another covariance than the kernel"):
        check_kernel(weft.EQ(1.1, order=3), np.ones((3, 1)), tolerance=1e-6)


class Wrong(weft.Kernel):
    """Matern12 in one column, with one law broken."""

    wrong: str
    lengthscale: Float[AnyArray, ""] = positive(default=1.3)

    def covariance(self, xs: Float[AnyArray, "x dim"], ys: Float[AnyArray, "y dim"]) -> Float[Array, "x y"]:
        lags = xs[:, None, 0] - ys[None, :, 0]
        if self.wrong == "symmetric":
            return jnp.exp(-jnp.abs(lags - 0.1) / self.lengthscale)
        if self.wrong == "eigenvalue":
            return jnp.cos(lags) * jnp.abs(jnp.cos(lags)) - 0.9 * jnp.exp(-(lags**2)) + 0.9
        if self.wrong == "finite":
            return jnp.exp(-jnp.sqrt(lags**2) / self.lengthscale)
        return jnp.exp(-jnp.abs(lags) / self.lengthscale)

    def variances(self, xs: Float[AnyArray, "x dim"]) -> Float[Array, " x"]:
        return jnp.full(xs.shape[0], 2.0 if self.wrong == "variances" else 1.0)

    def check_width(self, width: int) -> None:
        if width != 1:
            raise ValueError("one column only")

    def state_space(self) -> StateSpace:
        if self.wrong != "chain":
            raise TypeError("no form")
        return weft.Matern12(2.0 * self.lengthscale).state_space()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("symmetric", "not symmetric"),
        ("eigenvalue", "has an eigenvalue of -"),
        ("finite", "is not finite"),
        ("variances", "variances are not the diagonal"),
        ("chain", "another covariance than the kernel"),
    ],
)
def test_a_broken_kernel_is_told_what_is_wrong(wrong, said):
    with pytest.raises(AssertionError, match=said):
        check_kernel(Wrong(wrong))
    check_kernel(Wrong("nothing"))


class WrongNoise(weft.Likelihood):
    """The normal distribution, with one law broken."""

    support = Support.REAL
    wrong: str
    variance: Float[AnyArray, ""] = positive(default=0.6)

    def log_density(self, values, f, extra):
        square = (values - f) ** 2 / self.variance
        if self.wrong == "finite":
            square = jnp.where(jnp.abs(f) > 45, jnp.inf, square)
        return -0.5 * (jnp.log(2 * jnp.pi * self.variance) + square)

    def expected_log_density(self, values, mean, variance, extra=None):
        spread = 0.0 if self.wrong == "mean over f" else variance
        return self.log_density(values, mean, extra) - 0.5 * spread / self.variance

    def sample(self, seed, f, extra=None):
        drawn = np.random.default_rng(seed).normal(size=np.shape(f))
        return f + np.sqrt(self.variance) * drawn * (2.0 if self.wrong == "samples" else 1.0)


@pytest.mark.parametrize("wrong", ["mean over f", "finite", "samples"])
def test_a_broken_likelihood_is_told_what_is_wrong(wrong):
    with pytest.raises(AssertionError, match=wrong):
        check_likelihood(WrongNoise(wrong))


def test_a_likelihood_of_ones_own_passes():
    check_likelihood(WrongNoise("nothing"))
