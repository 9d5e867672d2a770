# SPDX-License-Identifier: MIT
"""Does `weft.estimate` tell what an evaluation then takes? Seconds and peak memory, estimated and measured.

Each shape runs in a process of its own, so that one's memory does not hide another's.

    python benchmarks/estimate.py [--quick]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

SHAPES = {
    # times, rows a time, places, pseudo-points, components
    "many rows, small state": (2000, 300, 20000, 10, 1),
    "stations": (3000, 60, 60, 30, 2),
    "within the budget": (300, 40, 40, 40, 1),
    "beyond the budget": (1000, 80, 80, 80, 2),
}


def build(num_times, num_rows, num_places, num_pseudo, num_components):
    import numpy as np

    import weft

    rng = np.random.default_rng(0)
    stations = rng.uniform(0, 10, (num_places, 2))
    times = np.repeat(np.arange(float(num_times)), num_rows)
    data = weft.Observations(times, stations[rng.integers(0, num_places, len(times))], rng.normal(size=len(times)))
    kernel = weft.Separable(space=weft.Matern32(2.0), time=weft.Matern52(20.0))
    if num_components == 2:
        kernel = kernel + 0.5 * weft.Separable(space=weft.Matern32(1.0), time=weft.Matern32(3.0))
    return weft.Model(kernel, weft.Gaussian(0.3), rng.uniform(0, 10, (num_pseudo, 2))), data


def status(name):
    """A line of the process's status, in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def measure(shape):
    import jax

    jax.config.update("jax_enable_x64", True)
    import numpy as np

    import weft

    def evaluate(model, data):
        value, gradient = jax.value_and_grad(weft.log_evidence)(model, data)
        jax.block_until_ready((value, gradient))

    small = build(50, 5, 10, 8, shape[4])
    evaluate(*small)
    model, data = build(*shape)
    # Writing 5 resets the peak to what is held now.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    held = status("VmRSS")
    evaluate(model, data)
    peak = status("VmHWM") - held
    expected = weft.estimate(model, data)
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        evaluate(model, data)
        seconds.append(time.perf_counter() - begun)
    return {
        "shape": shape,
        "estimated_seconds": expected.seconds_per_evaluation,
        "measured_seconds": float(np.min(seconds)),
        "estimated_bytes": expected.memory_bytes,
        "measured_bytes": peak,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first two shapes only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(measure(SHAPES[arguments.one])))
        return
    results = {}
    for name in list(SHAPES)[: 2 if arguments.quick else None]:
        output = subprocess.run(
            [sys.executable, __file__, "--one", name], check=True, capture_output=True, text=True
        ).stdout
        found = json.loads(output.splitlines()[-1])
        results[name] = found
        print(
            f"{name:26s} seconds {found['estimated_seconds']:.3f} estimated, {found['measured_seconds']:.3f} measured; "
            f"MB {found['estimated_bytes'] / 1e6:.0f} estimated, {found['measured_bytes'] / 1e6:.0f} measured",
            flush=True,
        )
    from results import write_results

    write_results("estimate", results)


if __name__ == "__main__":
    main()
