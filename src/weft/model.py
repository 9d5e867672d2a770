# SPDX-License-Identifier: MIT
"""A model: kernel, likelihood, pseudo-points and mean. No data, no algorithm."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from weft.arrays import ARRAYS, AnyArray, is_concrete, require_float64
from weft.domains import Parametrised, as_float64
from weft.kernels import Constant, Linear, Separable, SumSeparable
from weft.likelihoods import Likelihood


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

    `pseudo_points`: a matrix shared by all components of the kernel, a tuple with one matrix for each, or None for exact
    inference (every place of the data is a pseudo-point). Components whose space kernel is Constant or Linear need none and
    are exact always. `mean`: None, ConstantMean or LinearMean; it is one more static component, after the kernel's.
    """

    kernel: Separable | SumSeparable
    likelihood: Likelihood
    pseudo_points: Float[AnyArray, "pseudo dim"] | tuple[Float[AnyArray, "_ dim"], ...] | None
    mean: ConstantMean | LinearMean | None

    def __init__(
        self,
        kernel: Any,
        likelihood: Any,
        pseudo_points: Any = None,
        mean: Any = None,
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
        self.pseudo_points = checked_pseudo_points(pseudo_points, kernel.components)

    @property
    def components(self) -> tuple[Separable, ...]:
        """The kernel's components, then the mean's if there is one."""
        return self.kernel.components + (() if self.mean is None else (self.mean.component(),))

    def pseudo_points_of(self, places: AnyArray) -> tuple[Float[AnyArray, "_ dim"], ...]:
        """One matrix a component; `places` where there are no pseudo-points and for the mean, which uses none."""
        own = self.pseudo_points
        num_kernel = len(self.kernel.components)
        of_kernel = own if isinstance(own, tuple) else (places if own is None else own,) * num_kernel
        return of_kernel + (places,) * (len(self.components) - num_kernel)


def checked_pseudo_points(pseudo_points: Any, components: tuple[Separable, ...]) -> Any:
    if pseudo_points is None:
        return None
    if isinstance(pseudo_points, tuple):
        if len(pseudo_points) != len(components):
            raise ValueError(
                f"pseudo_points as a tuple must have one matrix a component; there are {len(pseudo_points)} matrices and "
                f"{len(components)} components"
            )
        matrices = tuple(
            checked_matrix(matrix, (component,)) for matrix, component in zip(pseudo_points, components, strict=True)
        )
        widths = sorted({matrix.shape[1] for matrix in matrices})
        if len(widths) > 1:
            raise ValueError(f"pseudo_points of all components must have equally many columns; they have {widths}")
        return matrices
    return checked_matrix(pseudo_points, components)


def checked_matrix(matrix: Any, components: tuple[Separable, ...]) -> AnyArray:
    if isinstance(matrix, list) and len({np.shape(part) for part in matrix if isinstance(part, ARRAYS)}) > 1:
        raise TypeError(
            "pseudo_points of the components differ in size: give them as a tuple of matrices, not as a list"
        )
    matrix = as_float64(matrix)
    if matrix.ndim != 2 or matrix.shape[0] == 0:
        raise ValueError(f"pseudo_points must be a matrix, one row a point; its shape is {matrix.shape}")
    if is_concrete(matrix) and not np.all(np.isfinite(matrix)):
        raise ValueError("pseudo_points must be finite; some are NaN or infinite")
    for component in components:
        if is_concrete(matrix):
            component.space.check_inputs(matrix)
        else:
            component.space.check_width(matrix.shape[1])
    return matrix
