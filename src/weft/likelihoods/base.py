# SPDX-License-Identifier: MIT
"""What a likelihood is: the distribution of an observation given the field f at its row.

A likelihood of your own is a class with `log_density`; everything else has a default that works from it, once `support`
says where observations may lie:

    class Cauchy(Likelihood):
        support = Support.REAL
        scale: Float[AnyArray, ""] = positive(default=1.0)

        def log_density(self, values, f, extra):
            return -jnp.log(jnp.pi * self.scale * (1 + ((values - f) / self.scale) ** 2))

Every function acts on rows side by side. `log_density`, `expected_log_density` and `initial` may be transformed by JAX,
and so may `predict` of every likelihood in this package; `check`, `quantile` and `sample` want known numbers and give
NumPy arrays. A row whose value is NaN is missing: `check` passes over it, and all else is NaN there, so leave it out.
"""

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from weft.arrays import AnyArray
from weft.domains import Parametrised
from weft.likelihoods import numerical
from weft.likelihoods.quadrature import gauss_hermite
from weft.likelihoods.rows import NO_EXTRAS, PerRow, Probability, RowExtras, Support


class Likelihood(Parametrised):
    """The distribution of an observation given f; with f uncertain, what to expect of it."""

    # None where the class does not say; then observations cannot be predicted from the density alone.
    support: ClassVar[Support | None] = None
    # Which extras mean something; others are refused rather than ignored.
    uses: ClassVar[tuple[str, ...]] = ("exposure", "trials", "noise_variance", "lower", "upper")

    @abc.abstractmethod
    def log_density(self, values: PerRow, f: PerRow, extra: RowExtras = NO_EXTRAS) -> PerRow:
        """The logarithm of p(value | f): a density or, for counts, a probability."""

    def expected_log_density(
        self, values: PerRow, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> PerRow:
        """E log p(value | f) under f ~ N(mean, variance).

        By default Gauss-Hermite quadrature, whose accuracy falls once f varies by more than three times the width over
        which the log density bends (`quadrature.gauss_hermite` has the numbers). A class that knows where that is
        overrides this with `quadrature.expect_around`.
        """
        return gauss_hermite(lambda f: self.log_density(values, f, extra), mean, variance)

    def predict(self, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        """Mean and variance of an observation where f ~ N(mean, variance)."""
        return numerical.moments(self, mean, variance, extra)

    def quantile(
        self, probability: Probability, mean: PerRow, variance: PerRow, extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, " row"]:
        """The quantile of an observation where f ~ N(mean, variance); a whole number for counts."""
        return numerical.quantile(self, probability, mean, variance, extra)

    def sample(
        self, seed: int | np.random.Generator, f: Float[AnyArray, "*sample row"], extra: RowExtras = NO_EXTRAS
    ) -> Float[np.ndarray, "*sample row"]:
        """An observation for each f, whose last axis is the rows."""
        return numerical.sample(self, seed, f, extra)

    def check(self, values: PerRow, extra: RowExtras = NO_EXTRAS, rows: Int[AnyArray, " row"] | None = None) -> None:
        """Raise ValueError naming the rows that cannot be; `rows` are their numbers, if not counted from 0."""
        check_extras(self, values, extra, rows)
        check_support(self, values, rows)

    def initial(self, values: PerRow, extra: RowExtras = NO_EXTRAS) -> tuple[PerRow, PerRow]:
        """Mean and precision of a Gaussian in f to start from in place of the likelihood.

        By default one step of conjugate-computation variational inference from N(0, 1).
        """

        def total(mean: Array, variance: Array) -> Array:
            return jnp.sum(self.expected_log_density(values, mean, variance, extra))

        ones = jnp.ones(values.shape)
        slope, bend = jax.grad(total, argnums=(0, 1))(0.0 * ones, ones)
        precision = jnp.maximum(-2 * bend, 1e-3)
        return slope / precision, precision


def check_support(likelihood: Likelihood, values: PerRow, rows: AnyArray | None) -> None:
    values = np.asarray(values)
    support = Support.REAL if likelihood.support is None else likelihood.support
    bad = ~support.contains(values) & ~np.isnan(values)
    refuse(likelihood, f"values must be {support.value}", values, bad, rows)


def check_extras(likelihood: Likelihood, values: PerRow, extra: RowExtras, rows: AnyArray | None) -> None:
    present = ~np.isnan(np.asarray(values))
    idle = {"exposure": 1.0, "trials": 1.0, "noise_variance": 0.0, "lower": -np.inf, "upper": np.inf}
    wanted = {
        "exposure": "exposure must be finite and positive",
        "trials": "trials must be whole numbers, one or more",
        "noise_variance": "noise_variance must be finite and zero or positive",
        "lower": "lower must be a number, or minus infinity where there is no limit",
        "upper": "upper must be a number, or infinity where there is no limit",
    }
    for name, nothing in idle.items():
        given = getattr(extra, name)
        if given is None:
            continue
        given = np.asarray(given)
        if name not in likelihood.uses and np.any(given[present] != nothing):
            raise ValueError(
                f"{type(likelihood).__name__} makes no use of {name}, which the rows have; leave it out, or choose a "
                "likelihood that does"
            )
        valid = {
            "exposure": (given > 0) & np.isfinite(given),
            "trials": (given >= 1) & (given == np.floor(given)) & np.isfinite(given),
            "noise_variance": (given >= 0) & np.isfinite(given),
            "lower": given < np.inf,
            "upper": given > -np.inf,
        }[name]
        refuse(likelihood, wanted[name], given, present & ~valid, rows)


def refuse(
    likelihood: Likelihood,
    wanted: str,
    values: Float[np.ndarray, " row"],
    bad: Bool[np.ndarray, " row"],
    rows: Int[AnyArray, " row"] | None,
) -> None:
    """Raise ValueError naming the first rows where `bad` holds, if any."""
    (found,) = np.nonzero(bad)
    if len(found) == 0:
        return
    first = found[:5]
    numbers = first if rows is None else np.asarray(rows)[first]
    shown = ", ".join(f"{value:.12g} in row {number}" for value, number in zip(values[first], numbers, strict=True))
    more = f" and {len(found) - len(first)} more rows" if len(found) > len(first) else ""
    raise ValueError(f"{type(likelihood).__name__}: {wanted}; there is {shown}{more}")
