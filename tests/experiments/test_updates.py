# SPDX-License-Identifier: MIT
"""The four updates against conditioning a joint Gaussian by its definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from weft_experiments.emission import make_step
from weft_experiments.updates import UPDATES


def condition_jointly(step):
    """Mean, covariance and log density from the joint law of state and rows; by solving, not by any factor."""
    emission = step.weights @ step.readout
    cross = step.covariance @ emission.T
    marginal = emission @ cross + np.diag(step.noise)
    gain = np.linalg.solve(marginal, cross.T).T
    log_density = multivariate_normal(emission @ step.mean, marginal).logpdf(step.values)
    return step.mean + gain @ (step.values - emission @ step.mean), step.covariance - gain @ cross.T, log_density


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize(("num_latent", "num_rows"), [(1, 2), (3, 1), (2, 4), (3, 11)])
def test_update_is_that_of_the_joint_law(name, num_latent, num_rows):
    step = make_step(num_latent, 4, num_rows, seed=5)
    for mine, expected in zip(UPDATES[name](step), condition_jointly(step), strict=True):
        assert_allclose(mine, expected, rtol=1e-10, atol=1e-12)
