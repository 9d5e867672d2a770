# SPDX-License-Identifier: MIT
"""The evidence of a model and its approximations: exact, VFE, power EP, FITC, DTC."""

from jaxtyping import Array, Float

from weft.arrays import require_float64
from weft.data.observations import Observations
from weft.engines.base import Engine, shape_of_chain
from weft.engines.choose import choose_engine
from weft.inference.approximate import require_variational
from weft.inference.prior import make_prior
from weft.inference.sites import check_power, check_problem, gaussian_sites, noise_is_by_place, rows_of
from weft.inference.variational import SearchMemory, variational_bound
from weft.likelihoods import Gaussian
from weft.model import Model


def log_evidence(
    model: Model,
    data: Observations,
    *,
    power: float = 0.0,
    correction: bool = True,
    engine: str | Engine = "auto",
    memory: SearchMemory | None = None,
) -> Float[Array, ""]:
    """Approximate log evidence: the ELBO at power 0, FITC at 1, power EP between; exact if there are no pseudo-points.

    The ELBO is [eqn:saturated-bound-appendix]; one filter pass gives its first term. `correction=False` leaves out the
    term that charges for unexplained variance: at power 0 that is DTC. Differentiable in the model, pseudo-points
    included; twice with engine="scan" only.

    Of a likelihood that is not Gaussian it is the variational bound at the best Gaussian sites (`conjugate_vi`), outside
    of `jit`; `memory`, one for several evaluations, lets each search for sites start where the last one ended.
    """
    require_float64()
    check_power(power)
    check_problem(model, data)
    prior = make_prior(model, data)
    chosen = choose_engine(engine, shape_of_chain(prior.chain, prior.weights, data.grouping.layout))
    if not isinstance(model.likelihood, Gaussian):
        require_variational(model, power, correction)
        return variational_bound(model, data, prior, chosen, memory)
    sites = gaussian_sites(model, data, prior.unexplained, power=power, correction=correction)
    rows = rows_of(data, sites, is_by_place=noise_is_by_place(data, prior.chain))
    normaliser = chosen.log_normaliser(prior.chain, prior.weights, rows)
    return normaliser + sites.log_constant
