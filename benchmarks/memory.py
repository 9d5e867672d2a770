# SPDX-License-Identifier: MIT
"""By how much memory grows over 3,000 predictions and 3,000 values with gradients of one model, after the first hundred of each.

python benchmarks/memory.py [--calls 3000]
"""

import argparse
import gc
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import weft


def resident_megabytes(kind: str = "VmRSS") -> float:
    """What this process has in memory now, or of "VmHWM" the most it ever had."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) / 1024
    raise KeyError(kind)


def kept_value_and_gradient(posterior: Any) -> Callable[[], Any]:
    """The evidence of a posterior's model on its rows, and its gradient, as a search asks for them."""
    model, (data, *_) = posterior.model, posterior.batches
    evaluate = jax.value_and_grad(weft.log_evidence)
    return lambda: jax.block_until_ready(evaluate(model, data))


def growth(work: Callable[[], Any], calls: int) -> float:
    for _ in range(100):
        work()
    gc.collect()
    before = resident_megabytes()
    for _ in range(calls):
        work()
    gc.collect()
    return resident_megabytes() - before


def main() -> None:
    from results import write_results

    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3000)
    calls = parser.parse_args().calls
    rng = np.random.default_rng(0)
    stations = rng.uniform(0, 10, (20, 2))
    times = np.repeat(np.arange(60.0), 20)
    data = weft.Observations(times, np.tile(stations, (60, 1)), rng.normal(size=len(times)))
    kernel = weft.Separable(space=weft.Matern32(3.0), time=weft.Matern32(30.0)) + 0.3 * weft.Separable(
        space=weft.Matern32(1.0), time=weft.Matern12(3.0)
    )
    posterior = weft.condition(weft.Model(kernel, weft.Gaussian(0.3), rng.uniform(0, 10, (8, 2))), data)
    asked = rng.uniform(0, 70, 200), rng.uniform(0, 10, (200, 2))
    grown = {
        "predictions": growth(lambda: posterior.predict(*asked), calls),
        "values_and_gradients": growth(kept_value_and_gradient(posterior), calls),
    }
    for name, megabytes in grown.items():
        print(f"{calls} {name.replace('_', ' ')}: memory grew by {megabytes:.2f} MB")
    print(f"written to {write_results('memory', {'calls': calls, 'megabytes_grown': grown})}")


if __name__ == "__main__":
    main()
