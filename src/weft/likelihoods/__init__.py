# SPDX-License-Identifier: MIT
"""Distributions of an observation given the field."""

from weft.likelihoods.base import Likelihood
from weft.likelihoods.bernoulli import Bernoulli
from weft.likelihoods.beta import Beta
from weft.likelihoods.binomial import Binomial
from weft.likelihoods.exponential import Exponential
from weft.likelihoods.gamma import Gamma
from weft.likelihoods.gaussian import Gaussian
from weft.likelihoods.laplace import Laplace
from weft.likelihoods.log_normal import LogNormal
from weft.likelihoods.negative_binomial import NegativeBinomial
from weft.likelihoods.poisson import Poisson
from weft.likelihoods.rain import Rain
from weft.likelihoods.rows import NO_EXTRAS, RowExtras, Support
from weft.likelihoods.student_t import StudentT
from weft.likelihoods.tobit import Tobit
from weft.likelihoods.zero_inflated_poisson import ZeroInflatedPoisson

__all__ = [
    "NO_EXTRAS",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Exponential",
    "Gamma",
    "Gaussian",
    "Laplace",
    "Likelihood",
    "LogNormal",
    "NegativeBinomial",
    "Poisson",
    "Rain",
    "RowExtras",
    "StudentT",
    "Support",
    "Tobit",
    "ZeroInflatedPoisson",
]
