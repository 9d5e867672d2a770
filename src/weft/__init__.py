# SPDX-License-Identifier: MIT
"""Gaussian processes for large space-time data.

Public names are loaded on first use, so that `import weft` and `weft --help` stay light.
"""

import importlib
from typing import Any

_HOMES = {
    "weft.kernels": (
        "EQ",
        "Columns",
        "Constant",
        "Cosine",
        "Graph",
        "Kernel",
        "Linear",
        "Matern12",
        "Matern32",
        "Matern52",
        "Matern72",
        "OnSphere",
        "Periodic",
        "RationalQuadratic",
        "Separable",
        "SumSeparable",
        "Wiener",
    ),
    "weft.comparison": ("compare",),
    "weft.estimator.scikit_learn": ("scorer",),
    "weft.space_time_gp": ("SpaceTimeGP",),
    "weft.likelihoods": (
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
        "StudentT",
        "ZeroInflatedPoisson",
    ),
    "weft.model": ("ConstantMean", "LinearMean", "Model"),
    "weft.engines.base": ("Engine",),
    "weft.data.observations": ("Observations",),
    "weft.inference.evidence": ("log_evidence",),
    "weft.loading": ("load",),
    "weft.inference.posterior": ("Posterior",),
    "weft.inference.single": ("condition",),
    "weft.project.surveys": ("survey",),
    "weft.pseudo_points": ("place",),
    "weft.state_space.fourier": ("FourierFeatures",),
    "weft.training.estimate": ("Estimate", "estimate"),
    "weft.training.fitting": ("FitResult", "Outcome", "fit"),
    "weft.training.priors": ("LogNormalPrior", "NormalPrior"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = sorted([*_HOME_OF, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
