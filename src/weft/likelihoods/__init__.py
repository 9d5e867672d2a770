# SPDX-License-Identifier: MIT
"""Distributions of an observation given the field."""

from weft.likelihoods.base import NO_EXTRAS, Likelihood, RowExtras, Support
from weft.likelihoods.gaussian import Gaussian

__all__ = ["NO_EXTRAS", "Gaussian", "Likelihood", "RowExtras", "Support"]
