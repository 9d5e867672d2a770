# SPDX-License-Identifier: MIT
"""Gaussian processes for large space-time data.

Public names are loaded on first use, so that `import weft` and `weft --help` stay light; `__init__.pyi` says the same to type checkers.
"""

import importlib
from typing import Any

from weft.collecting import without_collecting

_HOMES = {
    "weft.kernels": (
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
        "RationalQuadratic",
        "Separable",
        "SumSeparable",
        "Uneven",
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
        "Rain",
        "StudentT",
        "Tobit",
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
_MODULES = ("domains", "testing")

__all__ = sorted([*_HOME_OF, *_MODULES, "__version__"])


def _home_of(name: str) -> str | None:
    """The module that has `name`, or is it; None where nothing is called so."""
    return f"weft.{name}" if name in _MODULES else _HOME_OF.get(name)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # A tenth of what `weft --help` takes, and it does not ask.
        from importlib.metadata import version

        return version("weft")
    home = _home_of(name)
    if home is None:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    with without_collecting():
        module = importlib.import_module(home)
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
