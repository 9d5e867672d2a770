# SPDX-License-Identifier: MIT
"""A class with nothing but `log_density` does all that a likelihood does, or says why it cannot."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jaxtyping import Float
from numpy.testing import assert_allclose

from weft.arrays import AnyArray
from weft.domains import positive
from weft.likelihoods import Beta, Gamma, Gaussian, Likelihood, Poisson, RowExtras, Support


class Cauchy(Likelihood):
    support = Support.REAL
    scale: Float[AnyArray, ""] = positive(default=1.0)

    def log_density(self, values, f, extra):
        return -jnp.log(jnp.pi * self.scale * (1 + ((values - f) / self.scale) ** 2))


class Known(Likelihood):
    """A likelihood of the package with all but its density taken away."""

    likelihood: Likelihood
    support = None

    def log_density(self, values, f, extra):
        return self.likelihood.log_density(values, f, extra)


class KnownReal(Likelihood):
    likelihood: Likelihood
    support = Support.REAL

    def log_density(self, values, f, extra):
        return self.likelihood.log_density(values, f, extra)


class KnownPositive(Likelihood):
    likelihood: Likelihood
    support = Support.POSITIVE

    def log_density(self, values, f, extra):
        return self.likelihood.log_density(values, f, extra)


class KnownUnit(Likelihood):
    likelihood: Likelihood
    support = Support.UNIT

    def log_density(self, values, f, extra):
        return self.likelihood.log_density(values, f, extra)


class KnownCounts(Likelihood):
    likelihood: Likelihood
    support = Support.COUNTS

    def log_density(self, values, f, extra):
        return self.likelihood.log_density(values, f, extra)


MEAN, VARIANCE = np.array([0.4, -1.3, 1.0]), np.array([0.5, 0.1, 0.0])
EXTRA = RowExtras(exposure=np.array([1.0, 20.0, 3.0]))
PAIRS = [
    (KnownReal, Gaussian(1e-4), RowExtras(noise_variance=np.array([0.1, 400.0, 1e-8]))),
    (KnownPositive, Gamma(3.0), RowExtras()),
    (KnownUnit, Beta(20.0), RowExtras()),
    (KnownCounts, Poisson(), EXTRA),
]


@pytest.mark.parametrize(("wrap", "likelihood", "extra"), PAIRS, ids=["real", "positive", "unit", "counts"])
def test_everything_follows_from_the_density(wrap, likelihood, extra):
    bare = wrap(likelihood)
    # Sums over a table of some hundred values: good to about 1e-5.
    assert_allclose(bare.predict(MEAN, VARIANCE, extra), likelihood.predict(MEAN, VARIANCE, extra), rtol=1e-4)
    for probability in (0.02, 0.5, 0.9):
        expected = likelihood.quantile(probability, MEAN, VARIANCE, extra)
        assert_allclose(bare.quantile(probability, MEAN, VARIANCE, extra), expected, rtol=1e-3)
    f = np.broadcast_to(MEAN, (300, 3))
    samples = bare.sample(3, f, extra)
    mean, variance = likelihood.predict(MEAN, np.zeros(3), extra)
    assert np.all(np.abs(np.mean(samples, axis=0) - mean) < 5 * np.sqrt(variance / 300))
    values = samples[0]
    bare.check(values, extra)
    assert_allclose(
        bare.expected_log_density(values, MEAN, VARIANCE, extra),
        likelihood.expected_log_density(values, MEAN, VARIANCE, extra),
        rtol=1e-9,
    )


def test_cauchy():
    likelihood = Cauchy(0.3)
    reference = scipy.stats.cauchy(MEAN, 0.3)
    assert_allclose(likelihood.quantile(0.9, MEAN, np.zeros(3)), reference.ppf(0.9), rtol=1e-3)
    # It has neither mean nor variance.
    assert np.all(np.isnan(likelihood.predict(MEAN, VARIANCE)))
    mean, precision = likelihood.initial(np.array([2.0, -1.0, 0.6]))
    assert np.all(np.sign(mean) == [1, -1, 1])
    assert np.all(np.asarray(precision) > 0)
    with pytest.raises(ValueError, match="finite; there is inf in row 1"):
        likelihood.check(np.array([1.0, np.inf]))


def test_without_a_support_observations_cannot_be_predicted():
    bare = Known(Poisson())
    assert bare.expected_log_density(np.array([2.0]), np.zeros(1), np.ones(1)).shape == (1,)
    for ask in (
        lambda: bare.predict(MEAN, VARIANCE),
        lambda: bare.quantile(0.5, MEAN, VARIANCE),
        lambda: bare.sample(0, MEAN),
    ):
        with pytest.raises(TypeError, match="Known does not say where observations may lie"):
            ask()


def test_a_density_that_does_not_add_up_is_refused():
    # Counts told to be real numbers.
    with pytest.raises(ValueError, match=r"adds up to .* not 1, in row 0"):
        KnownPositive(Poisson()).predict(MEAN, VARIANCE)
