# SPDX-License-Identifier: MIT
"""How fast are the engines, how near to the machine's speed, in how much memory, and how do they grow with the series?

    python benchmarks/engine.py [--quick]

Seconds a step for value and value+gradient: `cpu` on one and two threads, `scan`, and the paper's dense algorithm. Rows a time are as many
as pseudo-points. The share of the machine's rate counts the multiplications of the method (below), not those an implementation adds, and
compares with dgemm on two cores measured in the same run.
"""

import argparse
import concurrent.futures
import itertools
import json
import pathlib
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from paper_algorithm import log_normaliser as paper_log_normaliser
from results import circumstances, read_results, write_results
from rich.console import Console
from rich.table import Table

import weft
from weft.data.layout import Layout
from weft.engines.cpu import CpuEngine, Limits
from weft.engines.cpu.threads import single_blas_thread
from weft.engines.scan import ScanEngine
from weft.inference.prior import chain_at
from weft.state_space.chain import Rows

TIME_KERNELS = {1: weft.Matern12, 2: weft.Matern32, 3: weft.Matern52}
FULL = {"bottlenecks": (5, 10, 20, 50, 100, 150), "latents": (1, 2, 3), "components": (1, 2)}
SECONDS_AT_LEAST = 0.5
QUICK = {"bottlenecks": (10, 50, 100), "latents": (2,), "components": (1,)}


def flops(bottleneck: int, latent: int) -> tuple[float, float]:
    """Multiplications and additions of one step, for value and value+gradient, with as many rows as pseudo-points.

    Forward as DESIGN section 3 counts it, (D^2 + 2D + 4/3) q^3. Backward 2D^2 (Z Lam) + D (Z Lam Z', one triangle) + 2D (that times
    H P_f) + 1 + 2 + 2D (U). A segment filtered again is not counted.
    """
    forward = (latent**2 + 2 * latent + 4 / 3) * bottleneck**3
    return forward, forward + (2 * latent**2 + 5 * latent + 3) * bottleneck**3


def problem(bottleneck, latent, components, num_times, num_rows=None):
    """A stationary series with `num_rows` rows a time (default: as many as the bottleneck is wide)."""
    rng = np.random.default_rng(0)
    num_rows = bottleneck if num_rows is None else num_rows
    kernel = weft.Separable(space=weft.EQ(1.0), time=TIME_KERNELS[latent](20.0))
    for number in range(1, components):
        kernel = kernel + 0.5 * weft.Separable(space=weft.EQ(0.3), time=TIME_KERNELS[latent](5.0 / number))
    sizes = tuple(np.diff(np.linspace(0, bottleneck, components + 1).astype(int)).tolist())
    model = weft.Model(kernel=kernel, likelihood=weft.Gaussian(0.5), pseudo_points=None)
    chain = jax.tree.map(jnp.asarray, chain_at(model, sizes, np.arange(float(num_times))))
    weights = jnp.asarray(rng.normal(size=(2 * bottleneck, bottleneck)) / np.sqrt(bottleneck))
    total = num_times * num_rows
    rows = Rows(
        Layout(np.arange(num_times + 1) * num_rows),
        jnp.asarray(rng.integers(0, 2 * bottleneck, total)),
        jnp.asarray(rng.normal(size=total)),
        jnp.asarray(rng.uniform(1.0, 4.0, total)),
    )
    return chain, weights, rows


def best_of(function, repeats):
    """The least seconds of a call, of so many or, where they are short, of SECONDS_AT_LEAST of them: what else runs disturbs those most."""
    times = []
    while len(times) < repeats or sum(times) < SECONDS_AT_LEAST:
        start = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - start)
    return min(times)


def dgemm_rate(num_threads, repeats=12):
    """Flops a second of dgemm on so many threads at once, each on matrices of its own.

    By way of NumPy, which lets the other threads run meanwhile; SciPy's own wrapper does not.
    """
    size = 384
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(size, size)), np.zeros((size, size))) for _ in range(num_threads)]

    def work(pair):
        for _ in range(20):
            np.matmul(pair[0], pair[0], out=pair[1])

    with single_blas_thread(), concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        seconds = best_of(lambda: list(pool.map(work, pairs)) and None, repeats)
    return num_threads * 20 * 2 * size**3 / seconds


def value_and_gradient(function, arguments):
    """In everything but the integers, as training asks for it; compiled once."""
    chain, weights, rows = arguments
    floats = (chain.components, weights, rows.value, rows.precision)

    @jax.jit
    def compiled(floats):
        def value(floats):
            components, weights, value, precision = floats
            moved = type(chain)(components, chain.step_number, None)
            return function(moved, weights, Rows(rows.layout, rows.place, value, precision))

        return jax.value_and_grad(value)(floats)

    return lambda: compiled(floats)


def time_paper(bottleneck, latent, components):
    """Seconds a step of the paper's algorithm, on one BLAS thread: on two, threads wait longer than small products take."""
    arguments = problem(bottleneck, latent, components, int(np.clip(2e9 / (bottleneck * latent) ** 3, 5, 1000)))
    with single_blas_thread():
        paper_log_normaliser(*arguments)
        return best_of(lambda: paper_log_normaliser(*arguments), 2) / arguments[0].num_times


def time_one(bottleneck, latent, components, quick):
    """All figures of one shape, in seconds a step.

    `cpu` gets a thousand steps or more, so that its two ends are long beside their meeting; `scan`, whose steps all cost the same, fewer.
    """
    size = bottleneck * latent
    num_times = 4000 if bottleneck < 20 else 2000 if bottleneck < 50 else 1000
    scan_times = int(np.clip(1e9 / (size**2 * bottleneck + 3e4), 50, num_times))
    if quick:
        num_times, scan_times = num_times // 2, min(scan_times, 300)
    arguments, fewer = (problem(bottleneck, latent, components, count) for count in (num_times, scan_times))
    repeats = 2 if quick or bottleneck >= 100 else 4
    record = {
        "bottleneck": bottleneck,
        "latent": latent,
        "components": components,
        "num_times": num_times,
        "scan num_times": scan_times,
        "commit": circumstances()["commit"],
    }
    engines = {
        "cpu 1": (CpuEngine(Limits(threads=1)).log_normaliser, arguments),
        "cpu 2": (CpuEngine(Limits(threads=2)).log_normaliser, arguments),
        "scan": (ScanEngine().log_normaliser, fewer),
    }
    for name, (engine, given) in engines.items():
        for what, function in (
            ("value", lambda engine=engine, given=given: engine(*given)),
            ("gradient", value_and_gradient(engine, given)),
        ):
            jax.block_until_ready(function())
            record[f"{name} {what}"] = best_of(function, repeats) / given[0].num_times
    record["paper value"] = time_paper(bottleneck, latent, components)
    rate = dgemm_rate(2)
    value_flops, gradient_flops = flops(bottleneck, latent)
    record["dgemm rate"] = rate
    record["share value"] = value_flops / record["cpu 2 value"] / rate
    record["share gradient"] = gradient_flops / record["cpu 2 gradient"] / rate
    record["speed-up over scan"] = record["scan gradient"] / record["cpu 2 gradient"]
    record["speed-up of two threads"] = record["cpu 1 gradient"] / record["cpu 2 gradient"]
    return record


def shape_of(record):
    return record["components"], record["latent"], record["bottleneck"]


def peak_memory(shape):
    """Megabytes that one value+gradient adds to its inputs, in a process of its own."""
    arguments = problem(*shape)
    small = problem(*shape[:3], 50, shape[4])
    jax.block_until_ready(value_and_gradient(CpuEngine().log_normaliser, small)())
    # The peak so far is forgotten first; it may be that of the process this one was forked from.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = memory_status("VmRSS")
    start = time.perf_counter()
    jax.block_until_ready(value_and_gradient(CpuEngine().log_normaliser, arguments)())
    return {
        "megabytes": (memory_status("VmHWM") - before) / 1e3,
        "seconds": time.perf_counter() - start,
    }


def memory_status(name):
    """Kilobytes, as Linux tells them."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


MEMORY_SHAPES = {
    "T = 7305, 50 rows, two Matern-5/2 components of 50": (100, 3, 2, 7305, 50),
    "T = 100000, q = 20, D = 3": (20, 3, 1, 100_000, 20),
}


def in_own_process(shape):
    command = [sys.executable, __file__, "--memory-of", json.dumps(shape)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def growth(quick):
    """Seconds of value+gradient over series of growing length, q = 10, D = 2."""
    record = {}
    for num_times in (1000, 10_000) if quick else (1000, 10_000, 100_000):
        function = value_and_gradient(CpuEngine().log_normaliser, problem(10, 2, 1, num_times))
        jax.block_until_ready(function())
        record[num_times] = best_of(function, 3)
    return record


def show(records, memory, lengths):
    console = Console(width=160)
    table = Table(title="microseconds a step (value+gradient unless said), q rows a time")
    for heading in (
        "q",
        "D",
        "parts",
        "cpu 1: value",
        "cpu 1",
        "cpu 2: value",
        "cpu 2",
        "scan: value",
        "scan",
        "paper: value",
        "scan / cpu 2",
        "1 / 2 threads",
        "of dgemm: value",
        "of dgemm",
    ):
        table.add_column(heading, justify="right")
    for record in records:
        names = (
            "cpu 1 value",
            "cpu 1 gradient",
            "cpu 2 value",
            "cpu 2 gradient",
            "scan value",
            "scan gradient",
            "paper value",
        )
        table.add_row(
            *(str(record[name]) for name in ("bottleneck", "latent", "components")),
            *(f"{1e6 * record[name]:.1f}" for name in names),
            *(f"{record[name]:.1f}" for name in ("speed-up over scan", "speed-up of two threads")),
            *(f"{record[name]:.0%}" for name in ("share value", "share gradient")),
        )
    console.print(table)
    for name, found in memory.items():
        console.print(f"{name}: {found['megabytes']:.0f} MB beyond the inputs, {found['seconds']:.1f} s")
    for num_times, seconds in lengths.items():
        console.print(f"T = {num_times}: {seconds:.3f} s, {1e6 * seconds / num_times:.1f} us a step")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three shapes and short series, under a minute or two")
    parser.add_argument(
        "--shapes",
        nargs="*",
        help="measure only these again (components,latent,bottleneck); others keep their figures",
    )
    parser.add_argument(
        "--paper", action="store_true", help="measure the paper's algorithm again, and keep the other figures"
    )
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if options.memory_of:
        print(json.dumps(peak_memory(json.loads(options.memory_of))))
        return
    grid = QUICK if options.quick else FULL
    name = "engine_quick" if options.quick else "engine"
    earlier = read_results(name) if options.shapes or options.paper else {}
    if options.paper:
        for record in earlier["steps"]:
            record["paper value"] = time_paper(record["bottleneck"], record["latent"], record["components"])
        write_results(name, earlier)
        show(earlier["steps"], earlier["memory"], earlier["growth"])
        return
    found = {shape_of(record): record for record in earlier.get("steps", [])}
    shapes = list(itertools.product(grid["components"], grid["latents"], grid["bottlenecks"]))
    if options.shapes:
        shapes = [tuple(int(number) for number in text.split(",")) for text in options.shapes]
    for components, latent, bottleneck in shapes:
        record = time_one(bottleneck, latent, components, options.quick)
        found[shape_of(record)] = record
        records = [found[shape] for shape in sorted(found)]
        # After every shape, so that a run cut short leaves what it found.
        write_results(name, {**earlier, "steps": records})
        print(f"q = {bottleneck}, D = {latent}, {components} components: done", file=sys.stderr, flush=True)
    memory = {} if options.quick else {name: in_own_process(shape) for name, shape in MEMORY_SHAPES.items()}
    lengths = growth(options.quick)
    show(records, memory, lengths)
    results = {"steps": records, "memory": memory, "growth": lengths, "one-core dgemm rate": dgemm_rate(1)}
    print(f"written to {write_results(name, results).name}")


if __name__ == "__main__":
    main()
