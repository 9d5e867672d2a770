# SPDX-License-Identifier: MIT
"""Covariances of space, of time, and of both."""

from weft.kernels.averages import Averages
from weft.kernels.base import Kernel, Product, Scaled, StateSpace, Sum
from weft.kernels.categories import Alike, Categories, Loadings
from weft.kernels.columns import Columns
from weft.kernels.separable import Separable, SumSeparable
from weft.kernels.space import Graph, OnSphere
from weft.kernels.stationary import (
    EQ,
    Constant,
    Cosine,
    Matern12,
    Matern32,
    Matern52,
    Matern72,
    Periodic,
    RationalQuadratic,
)
from weft.kernels.trends import Linear, Wiener
from weft.kernels.uneven import Uneven

__all__ = [
    "EQ",
    "Alike",
    "Averages",
    "Categories",
    "Columns",
    "Constant",
    "Cosine",
    "Graph",
    "Kernel",
    "Linear",
    "Loadings",
    "Matern12",
    "Matern32",
    "Matern52",
    "Matern72",
    "OnSphere",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Separable",
    "StateSpace",
    "Sum",
    "SumSeparable",
    "Uneven",
    "Wiener",
]
