# SPDX-License-Identifier: MIT
"""weft as a user writes it, for a type checker; a line marked `# wrong: code` is a mistake that it must find."""

import numpy as np
import pandas as pd

import weft
from weft.arrays import AnyArray
from weft.testing import check_kernel

times = np.linspace(0.0, 9.0, 40)
places = np.column_stack([np.sin(times), np.cos(times)])
kernel = 0.7 * weft.Separable(space=weft.EQ([1.0, 2.0]), time=weft.Matern52(3.0)) + 0.3 * weft.Separable(
    space=2.0 * weft.Matern32(0.5) + weft.Linear(), time=weft.Matern12(1.0) * weft.Cosine(2.0)
)
data = weft.Observations(times, places, times, noise_variance=np.full(40, 0.1))
points = weft.place(data, 5, method="kmeans")
model = weft.Model(kernel, weft.Gaussian(0.5), pseudo_points=points, mean=weft.ConstantMean(3.0))
result = weft.fit(model, data, power=0.5, engine="scan", progress=None, bounds={"likelihood.variance": (0.1, 2.0)})
posterior = weft.condition(result.model, data)
mean, variance = posterior.marginals([1.0, 2.0], [[0.0, 1.0], [1.0, 0.0]])
answer = posterior.predict(times, places).quantile(0.9) + result.log_evidence
gp = weft.SpaceTimeGP(
    time="date", space=("lat", "lon"), target="tmax", likelihood="student_t", pseudo_points=30, transform="log"
)
table = pd.DataFrame({"date": times, "lat": times, "lon": times, "tmax": times})
maps = gp.fit(table).predict(table, quantiles=(0.1, 0.9), of="field")
scores = gp.cross_validate(table, by="block", folds=3)
more: float | int = gp.score(table)["mean_crps"]
check_kernel(weft.Matern32(1.0))


class Own(weft.Kernel):
    """A kernel of the user's."""

    def covariance(self, xs: AnyArray, ys: AnyArray) -> AnyArray:
        return xs @ ys.T

    def variances(self, xs: AnyArray) -> AnyArray:
        return (xs**2).sum(axis=1)

    def check_width(self, width: int) -> None: ...


own = weft.Separable(space=Own(), time=weft.Wiener())

weft.EQ(lengthscales=1.0)  # wrong: call-arg
weft.Separable(space="near", time=weft.Matern12(1.0))  # wrong: arg-type
weft.EQ(1.0) + 3.0  # wrong: operator
weft.Model(weft.EQ(1.0), weft.Gaussian(0.5))  # wrong: arg-type
weft.Model(kernel, "gaussian")  # wrong: arg-type
weft.Observations(times, places)  # wrong: call-arg
weft.fit(model, data, powr=0.5)  # wrong: call-arg
weft.fit(data, model)  # wrong: arg-type
weft.place(data, "many")  # wrong: arg-type
print(result.log_evidnce)  # wrong: attr-defined
posterior.marginal(times, places)  # wrong: attr-defined
weft.Matern42(1.0)  # wrong: attr-defined
weft.SpaceTimeGP(time="date", space=("lat", "lon"), targte="tmax")  # wrong: call-arg
weft.SpaceTimeGP(time="date", space="lat", target="tmax", likelihood="guassian")  # wrong: arg-type
weft.SpaceTimeGP(time="date", space="lat", target="tmax", pseudo_points="some")  # wrong: arg-type
gp.predict(table, of="latent")  # wrong: arg-type
gp.cross_validate(table, by="stations")  # wrong: arg-type
print(gp.forecasted)  # wrong: attr-defined
