# SPDX-License-Identifier: MIT
"""How much memory and time a million predictions take: three years of days, 60 stations, bottleneck of 100.

python benchmarks/prediction.py [--rows 1000000]
"""

import argparse
import resource
import time

import jax
import numpy as np
from results import write_results

import weft

jax.config.update("jax_enable_x64", True)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    num_rows = parser.parse_args().rows
    rng = np.random.default_rng(0)
    num_times, num_stations = 1095, 60
    stations = rng.uniform(0, 10, (num_stations, 2))
    times = np.repeat(np.arange(float(num_times)), num_stations)
    data = weft.Observations(times, np.tile(stations, (num_times, 1)), rng.normal(size=len(times)))
    kernel = weft.Separable(space=weft.Matern32(3.0), time=weft.Matern32(30.0)) + 0.3 * weft.Separable(
        space=weft.Matern32(1.0), time=weft.Matern12(3.0)
    )
    model = weft.Model(kernel, weft.Gaussian(0.3), rng.uniform(0, 10, (50, 2)))
    posterior = weft.condition(model, data)
    posterior.marginals(times[:10], stations[:10])
    asked = rng.integers(0, num_times + 30, num_rows).astype(float), rng.uniform(0, 10, (num_rows, 2))

    before, start = peak_megabytes(), time.perf_counter()
    prediction = posterior.predict(*asked)
    seconds = time.perf_counter() - start
    output = 4 * prediction.mean.nbytes / 2**20
    beyond = peak_megabytes() - before - output
    print(f"{num_rows} rows at distinct places: {seconds:.1f} s, {beyond:.0f} MB beyond inputs and outputs")
    path = write_results("prediction", {"rows": num_rows, "seconds": seconds, "megabytes_beyond_output": beyond})
    print(f"written to {path}")


if __name__ == "__main__":
    main()
