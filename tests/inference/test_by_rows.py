# SPDX-License-Identifier: MIT
"""A posterior from the covariance of its rows against the dense oracle: ragged times, duplicates, noise of its own for each row."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.oracles import dense
from tests.problems import sum_separable
from weft.inference.by_rows import ByRows
from weft.inference.sites import Sites


@pytest.fixture(scope="module")
def twin():
    return sum_separable(exact=True)


@pytest.fixture(scope="module")
def by_rows(twin):
    data = twin.data
    noise = np.asarray(data.noise_variance) + float(twin.model.likelihood.variance)
    sites = Sites(np.asarray(data.values), 1 / noise, -np.sum(np.log(2 * np.pi * noise)) / 2)
    return ByRows(twin.model, data, sites)


@pytest.fixture(scope="module")
def asked():
    rng = np.random.default_rng(5)
    return rng.uniform(-1, 6, 40), rng.uniform(-0.5, 3.5, (40, 2))


def test_marginals(twin, by_rows, asked):
    mean, covariance = dense.posterior(twin.dense, *asked)
    found = by_rows.marginals(*asked)
    assert_allclose(found.mean, mean, rtol=0, atol=1e-10)
    assert_allclose(found.variance, np.diagonal(covariance), rtol=0, atol=1e-10)


def test_components(twin, by_rows, asked):
    for number, found in enumerate(by_rows.components(*asked)):
        mean, covariance = dense.posterior(twin.dense, *asked, only=number)
        assert_allclose(found.mean, mean, rtol=0, atol=1e-10)
        assert_allclose(found.variance, np.diagonal(covariance), rtol=0, atol=1e-10)


def test_log_evidence(twin, by_rows):
    assert_allclose(by_rows.log_evidence, dense.log_marginal_likelihood(twin.dense), rtol=1e-12)


def test_means_of_other_values(twin, by_rows, asked):
    values = np.random.default_rng(6).normal(size=(len(by_rows.rows.value), 3))
    found = by_rows.means_given(values, *asked)
    row = twin.data.row
    for draw in range(3):
        other = np.full(len(twin.values), np.nan)
        other[row] = values[:, draw]
        mean, _ = dense.posterior(dataclasses.replace(twin.dense, values=other), *asked)
        assert_allclose(found[:, draw], mean, rtol=0, atol=1e-10)


def test_fitted_values(twin, by_rows):
    mean, _ = dense.posterior(twin.dense, twin.data.row_times, twin.data.row_places)
    assert_allclose(by_rows.fitted_values(), mean, rtol=0, atol=1e-10)
