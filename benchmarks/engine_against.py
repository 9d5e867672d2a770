# SPDX-License-Identifier: MIT
"""Is the cpu engine slower than it was? Value and gradient on one thread, here and in another checkout, by turns in one run.

    python benchmarks/engine_against.py ../checkout-of-before [--turns 5] [--pairs 5]

Each checkout has a process of its own, and they take turns shape by shape. Seconds are the processor's own, and the fewest of all turns
count, so that other work on the machine is not taken for theirs. Where a process lies in memory makes it up to some per cent faster or
slower for as long as it lives, so there are several pairs of processes, and the ratio is the median of theirs. Results go to
benchmarks/results/engine_against.json.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys

from checkouts import HERE, environment_of
from results import write_results

# Bottleneck, size of the state a pseudo-point, components, times.
SHAPES = ((5, 2, 1, 4000), (10, 2, 1, 4000), (20, 2, 2, 2000), (50, 2, 1, 400), (100, 2, 1, 60), (130, 1, 2, 60))

TIMED = """
import functools, sys, time
sys.path.insert(0, "benchmarks")
import jax
jax.config.update("jax_enable_x64", True)
import engine

if hasattr(engine, "CpuEngine"):
    one_thread = engine.CpuEngine(engine.Limits(threads=1)).log_normaliser
else:
    one_thread = functools.partial(engine.cpu.log_normaliser, threads=1)
prepared = {}
for line in sys.stdin:
    if line not in prepared:
        prepared[line] = engine.value_and_gradient(one_thread, engine.problem(*map(int, line.split())))
        jax.block_until_ready(prepared[line]())
    begun = time.process_time()
    value, _ = jax.block_until_ready(prepared[line]())
    print(time.process_time() - begun, float(value), flush=True)
"""


class Checkout:
    """A process that times the engine as it is there."""

    def __init__(self, folder: pathlib.Path):
        self.process = subprocess.Popen(
            [sys.executable, "-c", TIMED],
            cwd=folder,
            env=environment_of(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def time(self, shape: tuple[int, ...]) -> tuple[float, float]:
        """Seconds of one evaluation, and its value."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(*shape, file=self.process.stdin, flush=True)
        seconds, value = self.process.stdout.readline().split()
        return float(seconds), float(value)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of processes")
    asked = parser.parse_args()
    folder = asked.before.resolve()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    fewest: dict[tuple[int, int, int, int], list[tuple[float, float]]] = {shape: [] for shape in SHAPES}
    for _ in range(asked.pairs):
        before, now = Checkout(folder), Checkout(HERE)
        for shape in SHAPES:
            turns = [(before.time(shape), now.time(shape)) for _ in range(asked.turns)]
            (_, value_before), (_, value_now) = turns[0]
            assert abs(value_now - value_before) <= 1e-9 * abs(value_before), "the two compute different things"
            fewest[shape].append((min(turn[0][0] for turn in turns), min(turn[1][0] for turn in turns)))
        before.close()
        now.close()
    found = []
    for shape in SHAPES:
        pairs = fewest[shape]
        seconds = [min(pair[which] for pair in pairs) for which in (0, 1)]
        record = dict(zip(("bottleneck", "latent", "components", "times"), shape, strict=True))
        of_pairs = [after / earlier for earlier, after in pairs]
        ratios = {"ratio": statistics.median(of_pairs), "ratios_of_pairs": of_pairs}
        found.append(record | {"before": seconds[0], "now": seconds[1]} | ratios)
        print(found[-1], flush=True)
    results = {"commit_before": commit.stdout.strip(), "seconds_of_the_processor": found}
    print(write_results("engine_against", results))


if __name__ == "__main__":
    main()
