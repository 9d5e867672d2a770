# SPDX-License-Identifier: MIT
"""A model: kernel, likelihood, basis and mean. No data, no algorithm."""

from typing import Any

import equinox as eqx
import numpy as np
import numpy.typing as npt

from weft.arrays import Given, require_float64
from weft.domains import Parametrised
from weft.kernels import Constant, Linear, Separable, SumSeparable
from weft.likelihoods import Likelihood
from weft.state_space.basis import AllPlaces, Basis, FeatureMap, as_basis

# What `pseudo_points` may be for one component.
Reduction = npt.ArrayLike | FeatureMap | Basis


class ConstantMean(eqx.Module):
    """An unknown constant with a normal prior of this `variance`, integrated out; it is not learned.

    Choose it generous beside the data: the square of ten times the largest value, say.
    """

    variance: float = eqx.field(static=True, default=100.0)

    def component(self) -> Separable:
        return Separable(space=Constant(np.asarray(self.variance)), time=Constant(np.asarray(1.0)))


class LinearMean(eqx.Module):
    """An unknown constant plus an unknown slope per column of space, with normal priors, integrated out; not learned."""

    variance: float = eqx.field(static=True, default=100.0)
    slope_variance: float = eqx.field(static=True, default=100.0)

    def component(self) -> Separable:
        return Separable(
            space=Constant(np.asarray(self.variance)) + Linear(np.asarray(self.slope_variance)),
            time=Constant(np.asarray(1.0)),
        )


class Model(Parametrised):
    """f ~ GP(mean, kernel), values ~ likelihood(f).

    `pseudo_points` say how space is reduced: a matrix shared by all components of the kernel, None for exact inference
    (every place of the data is a pseudo-point), a map to explicit features such as `weft.FourierFeatures`, or a tuple
    with one of these for each component. Components whose space kernel is Constant or Linear need none and are exact
    always. `mean`: None, ConstantMean or LinearMean; it is one more static component, after the kernel's.
    """

    kernel: Separable | SumSeparable
    likelihood: Likelihood
    basis: Basis | tuple[Basis, ...]
    mean: ConstantMean | LinearMean | None

    def __init__(
        self,
        kernel: Given[Separable | SumSeparable],
        likelihood: Given[Likelihood],
        pseudo_points: Given[Reduction | tuple[Reduction, ...] | None] = None,
        mean: Given[ConstantMean | LinearMean | None] = None,
    ):
        require_float64()
        if not isinstance(kernel, Separable | SumSeparable):
            raise TypeError(f"kernel must be a Separable or a sum of them; it is a {type(kernel).__name__}")
        if not isinstance(likelihood, Likelihood):
            raise TypeError(f"likelihood must be one such as weft.Gaussian(0.5); it is {likelihood!r}")
        if mean is not None and not isinstance(mean, ConstantMean | LinearMean):
            raise TypeError(f"mean must be None, weft.ConstantMean() or weft.LinearMean(); it is {mean!r}")
        self.kernel = kernel
        self.likelihood = likelihood
        self.mean = mean
        self.basis = as_bases(pseudo_points, kernel.components)

    @property
    def components(self) -> tuple[Separable, ...]:
        """The kernel's components, then the mean's if there is one."""
        return self.kernel.components + (() if self.mean is None else (self.mean.component(),))

    @property
    def bases(self) -> tuple[Basis, ...]:
        """How the space of each component is reduced; a mean's features are its own, so any basis will do for it."""
        num_kernel = len(self.kernel.components)
        of_kernel = self.basis if isinstance(self.basis, tuple) else (self.basis,) * num_kernel
        return of_kernel + (AllPlaces(),) * (len(self.components) - num_kernel)

    @property
    def pseudo_points(self) -> Any:
        """What was given for them, in a tuple where it was one."""
        return tuple(basis.given for basis in self.basis) if isinstance(self.basis, tuple) else self.basis.given

    @property
    def needs_places(self) -> bool:
        """Whether some component of the kernel is exact, its basis all places of the data."""
        return any(not len(basis.landmarks) for basis in self.bases[: len(self.kernel.components)])

    @property
    def is_exact(self) -> bool:
        """Whether every component of the kernel has all places of the data for its basis."""
        return not any(len(basis.landmarks) for basis in self.bases)


def as_bases(pseudo_points: Any, components: tuple[Separable, ...]) -> Basis | tuple[Basis, ...]:
    """The basis of all `components`, or one for each where `pseudo_points` are a tuple."""
    if not isinstance(pseudo_points, tuple):
        basis = as_basis(pseudo_points)
        for component in components:
            basis.check_kernel(component.space)
        return basis
    if len(pseudo_points) != len(components):
        raise ValueError(
            f"pseudo_points as a tuple must have one matrix a component; there are {len(pseudo_points)} matrices and "
            f"{len(components)} components"
        )
    bases = tuple(as_basis(given) for given in pseudo_points)
    for basis, component in zip(bases, components, strict=True):
        basis.check_kernel(component.space)
    widths = sorted({basis.landmarks.shape[1] for basis in bases if len(basis.landmarks)})
    if len(widths) > 1:
        raise ValueError(f"pseudo_points of all components must have equally many columns; they have {widths}")
    return bases
