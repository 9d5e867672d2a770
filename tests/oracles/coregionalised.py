# SPDX-License-Identifier: MIT
"""A dense Gaussian process of several outputs: a linear model of coregionalisation, over all rows of all of them at once."""

import dataclasses

import numpy as np

from tests.oracles.dense import matern12, matern32


@dataclasses.dataclass(frozen=True)
class Part:
    """One component: how outputs go together, and how long it is; rough in time where it is fast."""

    loadings: np.ndarray
    own: np.ndarray
    space_length: np.ndarray
    time_length: float
    is_rough: bool

    def covariance(self, a, b):
        together = np.outer(self.loadings, self.loadings) + np.diag(self.own)
        in_time = (matern12 if self.is_rough else matern32)(a.time[:, None], b.time[:, None], self.time_length)
        return together[np.ix_(a.output, b.output)] * matern32(a.where, b.where, self.space_length) * in_time


@dataclasses.dataclass(frozen=True)
class Rows:
    """When, where and of which output."""

    time: np.ndarray
    where: np.ndarray
    output: np.ndarray


def posterior(parts, noise_variance, rows, values, asked):
    """Mean and covariance of f at the rows asked about."""

    def covariance(a, b):
        return sum(part.covariance(a, b) for part in parts)

    gram = covariance(rows, rows) + noise_variance * np.eye(len(values))
    cross = covariance(asked, rows)
    solved = np.linalg.solve(gram, np.column_stack([values, cross.T]))
    return cross @ solved[:, 0], covariance(asked, asked) - cross @ solved[:, 1:]
