# SPDX-License-Identifier: MIT
"""What do more workers bring, and what does a table larger than a worker's memory take?

    python benchmarks/scale.py [--rows 50000000] [--memory 1GB] [--only switches learning much_learning regions times table]

`switches`: rows by switches beside rows time by time in the same process, of as many rows as a table of the United States has a day.

`learning`, `much_learning` and `regions`: one evaluation of all blocks and one answer of all regions by one worker and by two, and from
the seconds of each task a *replay* on 8, 32 and 128 workers: tasks in their order, each to the worker that is free first. A replay knows
nothing of networks; it says what the sizes of tasks allow. `times`: one long series by blocks of times on two workers, beside the cpu
engine from both ends on the same two processors, and the operations of both, counted. `table`: a made table in parquet files, fitted
and predicted by two workers with so much memory each. Results go to benchmarks/results/scale.json; parts that are not asked for stay
as they were.
"""

import argparse
import contextlib
import functools
import heapq
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import distributed
import jax
import numpy as np
import pandas as pd
from memory import resident_megabytes
from results import read_results, write_results

import weft
from weft.data.layout import Layout
from weft.distributed import tasks_on
from weft.distributed.clients import WORKER_ENVIRONMENT
from weft.distributed.on_dask import OnDask
from weft.distributed.time_blocks import TimeBlocksEngine
from weft.engines.base import filter_flops
from weft.engines.cpu import CpuEngine, Limits, elements
from weft.engines.cpu.problem import Problem, make_problem
from weft.engines.cpu.series import BySweeps
from weft.inference.executor import Executor
from weft.inference.prior import TimeGrid, make_chain
from weft.inference.regional import condition_regions
from weft.state_space.chain import Rows
from weft.training.blocks import choose_blocks
from weft.training.composite import CompositeObjective
from weft.training.parameters import make_space

REPLAYED = (8, 32, 128)
REPEATS = 3


class Timed(Executor):
    """Another executor, with the seconds of each task of the last call."""

    def __init__(self, inner: Executor):
        self.inner = inner
        self.seconds: list[float] = []

    def hold(self, piece: Any) -> Any:
        return self.inner.hold(piece)

    def map(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        names: Sequence[str] | None = None,
        again: bool = False,
    ) -> list[Any]:
        found = self.inner.map(functools.partial(timed, function), *columns, names=names, again=again)
        self.seconds = [seconds for seconds, _ in found]
        return [answer for _, answer in found]


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    begun = time.perf_counter()
    answer = jax.block_until_ready(function(*arguments))
    return time.perf_counter() - begun, answer


def replay(seconds: Sequence[float], workers: int) -> dict[str, float]:
    """When the last of these tasks would be done, and the part of the workers' time that they take."""
    free = [0.0] * workers
    for each in seconds:
        heapq.heappush(free, heapq.heappop(free) + each)
    return {"seconds": max(free), "efficiency": sum(seconds) / (max(free) * workers)}


def by_workers(client: distributed.Client, work: Callable[[], Any]) -> dict[str, Any]:
    """`work` by one worker and by two, the fastest of some turns after one that compiles."""
    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
    found: dict[str, Any] = {}
    for count in (1, 2):
        executor = Timed(OnDask(client, addresses[:count]))
        with tasks_on(executor):
            work()
            turns = []
            for _ in range(REPEATS):
                begun = time.perf_counter()
                work()
                turns.append((time.perf_counter() - begun, executor.seconds))
        wall, tasks = min(turns)
        found[f"seconds_{count}"] = wall
        found[f"overhead_{count}"] = 1 - sum(tasks) / (count * wall)
        found["load"] = os.getloadavg()[0]
    found["speedup"] = found["seconds_1"] / found["seconds_2"]
    found["tasks"] = len(tasks)
    found["replay"] = {str(count): replay(tasks, count) for count in REPLAYED}
    return found


def stations(num_places: int, num_times: int) -> weft.Observations:
    rng = np.random.default_rng(1)
    places = rng.uniform(0, 10, (num_places, 2))
    time_of_row, place_of_row = np.repeat(np.arange(num_times), num_places), np.tile(np.arange(num_places), num_times)
    value = np.sin(places[place_of_row, 0] + time_of_row / 20) + rng.normal(size=len(time_of_row))
    return weft.Observations(time_of_row.astype(float), places[place_of_row], value)


def model() -> weft.Model:
    slow = 0.7 * weft.Separable(space=weft.Matern32([2.0, 2.0]), time=weft.Matern32(30.0))
    fast = 0.3 * weft.Separable(space=weft.Matern32([1.0, 1.0]), time=weft.Matern12(3.0))
    return weft.Model(slow + fast, weft.Gaussian(0.5))


def learning(client: distributed.Client, operations: float) -> dict[str, Any]:
    chosen = [block.data for block in choose_blocks(model(), stations(400, 2000), work=operations)]
    space = make_space(model())

    def work() -> None:
        objective = CompositeObjective(space, model(), chosen, (), power=0.0, engine="auto")
        objective(space.start(model()))

    return by_workers(client, work)


def regions(client: distributed.Client) -> dict[str, Any]:
    posterior = condition_regions(model(), stations(400, 500))
    return by_workers(client, posterior.fitted_values)


def times(client: distributed.Client) -> dict[str, Any]:
    """Values and gradients of 200,000 times at 20 places."""
    num_times, num_places = 200_000, 20
    rng = np.random.default_rng(2)
    steps = np.array([0.0, 1.0])
    grid = TimeGrid(np.arange(float(num_times)), steps, np.minimum(np.arange(num_times), 1))
    part = weft.Separable(space=weft.Constant(), time=weft.Matern32(100.0))
    chain = make_chain((part,), (num_places,), grid)
    rows = Rows(
        Layout(num_places * np.arange(num_times + 1)),
        np.tile(np.arange(num_places), num_times),
        rng.normal(size=num_places * num_times),
        np.full(num_places * num_times, 2.0),
    )
    weights = np.linalg.cholesky(np.eye(num_places) + 0.5)
    found = {}
    for name, engine in (("both_ends", CpuEngine()), ("time_blocks", TimeBlocksEngine(num_blocks=2))):
        evaluate = functools.partial(
            jax.value_and_grad(engine.log_normaliser, argnums=1), chain, jax.numpy.asarray(weights), rows
        )
        with tasks_on(client if name == "time_blocks" else None):
            evaluate()
            begun = time.perf_counter()
            value, gradient = jax.block_until_ready(evaluate())
            found[name] = {"seconds": time.perf_counter() - begun, "value": float(value)}
        found[name]["gradient"] = float(np.sum(np.asarray(gradient) ** 2))
    found["ratio"] = found["time_blocks"]["seconds"] / found["both_ends"]["seconds"]
    found["relative_difference"] = max(
        abs(found["time_blocks"][name] / found["both_ends"][name] - 1) for name in ("value", "gradient")
    )
    found["load"] = os.getloadavg()[0]
    found["operations_ratio"] = operations_ratio(make_problem(chain, weights, rows), num_blocks=2)
    return found


def operations_ratio(problem: Problem, num_blocks: int) -> float:
    """Operations in blocks for one from both ends: a sweep is the same, and what blocks first tell of themselves comes on top."""
    carried = 0
    inner = elements._Carrier.carry

    def counted(self: elements._Carrier, first: int, last: int) -> None:
        nonlocal carried
        carried += last - first
        inner(self, first, last)

    elements._Carrier.carry = counted  # type: ignore[method-assign]
    try:
        length = problem.num_times // num_blocks
        for number in range(num_blocks):
            block = elements.times_of(problem, number * length, (number + 1) * length)
            elements.element_of(block, length)
    finally:
        elements._Carrier.carry = inner  # type: ignore[method-assign]
    size, rank = problem.size, min(problem.layout.counts.max(), problem.num_bottleneck)
    sweeps = filter_flops(problem.layout.counts, size, problem.num_bottleneck)
    # A filter, and as many means as the state has numbers, and one.
    step = sweeps.mean() / 3 + (size + 1) * (4.0 * rank * size + 4.0 * size)
    return float(1 + carried * step / sweeps.sum())


def in_a_crowd(
    num_pseudo: int, kernels: Sequence[weft.Kernel], num_times: int, num_rows: int, num_places: int, num_switches: int
) -> Problem:
    """So many rows a time of so many places, of which some come and some go between two times."""
    rng = np.random.default_rng(4)
    there = rng.permutation(num_places)[:num_rows]
    places = []
    for time_number in range(num_times):
        places.append(np.sort(there))
        coming = num_switches // 2 + time_number % 2 * (num_switches % 2)
        new = rng.choice(np.setdiff1d(np.arange(num_places), there), coming, replace=False)
        there = np.concatenate([rng.permutation(there)[coming:], new])
    place = np.concatenate(places)
    sizes = tuple(np.diff(np.linspace(0, num_pseudo, len(kernels) + 1).astype(int)).tolist())
    parts = tuple(weft.Separable(space=weft.Constant(), time=kernel) for kernel in kernels)
    grid = TimeGrid(np.arange(float(num_times)), np.array([0.0, 1.0]), np.minimum(np.arange(num_times), 1))
    rows = Rows(
        Layout(num_rows * np.arange(num_times + 1)),
        place,
        rng.normal(size=len(place)),
        rng.uniform(1.0, 4.0, num_places)[place],
        is_by_place=True,
    )
    return make_problem(
        make_chain(parts, sizes, grid), rng.normal(size=(num_places, num_pseudo)) / np.sqrt(num_pseudo), rows
    )


def switches() -> dict[str, Any]:
    """Value and gradient by switches and time by time, by turns on one thread; seconds of the processor."""
    ways = {"time_by_time": np.inf, "by_switches": 0.0}
    shapes = {
        "130 rough": (130, (weft.Matern12(20.0),)),
        "65 smooth, 65 rough": (130, (weft.Matern32(20.0), weft.Matern12(3.0))),
        "20 smooth, 20 rough": (40, (weft.Matern32(20.0), weft.Matern12(3.0))),
    }
    results = {}
    for name, (num_pseudo, kernels) in shapes.items():
        problem = in_a_crowd(num_pseudo, kernels, 128, 976, 1179, 39)
        solvers = {way: BySweeps(Limits(threads=1, seconds_for_switches=seconds)) for way, seconds in ways.items()}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        answers = {way: solver.value_and_gradient(problem) for way, solver in solvers.items()}
        for _ in range(2 * REPEATS):
            for way, solver in solvers.items():
                begun = time.process_time()
                solver.value_and_gradient(problem)
                seconds[way].append(time.process_time() - begun)
        (value, slopes), (other, others) = answers.values()
        by_place = [np.bincount(problem.observed.place, each.precision) for each in (slopes, others)]
        pairs = [(slopes.weights, others.weights), (slopes.value, others.value), tuple(by_place), (value, other)]
        results[name] = {
            **{f"seconds_{way}": min(each) for way, each in seconds.items()},
            "ratio": min(seconds["time_by_time"]) / min(seconds["by_switches"]),
            "relative_difference": max(float(np.max(np.abs(a - b)) / np.max(np.abs(a))) for a, b in pairs),
        }
        print("switches", name, results[name], flush=True)
    return results


def make_part(folder: str, number: int, num_parts: int, num_places: int, num_times: int) -> None:
    """One file of a made table: all places, a stretch of the times."""
    rng = np.random.default_rng([3, number])
    places = np.random.default_rng(3).uniform(0, 1000, (num_places, 2))
    hours = np.arange(number * num_times // num_parts, (number + 1) * num_times // num_parts)
    hour, place = np.repeat(hours, num_places), np.tile(np.arange(num_places), len(hours))
    value = 10 * np.sin(places[place, 0] / 200 + hour / 300) + rng.normal(size=len(hour))
    frame = pd.DataFrame({"hour": hour, "x": places[place, 0], "y": places[place, 1], "value": value})
    frame.to_parquet(pathlib.Path(folder) / f"part-{number:04d}.parquet", index=False)


def peak() -> float:
    """The most this process had in memory, in GB; the system's other count has what the process had that started it."""
    return resident_megabytes("VmHWM") * 1024**2 / 1e9


def table(client: distributed.Client, num_rows: int, memory: str, folder: str) -> dict[str, Any]:
    num_places = 2000
    num_times, num_parts = num_rows // num_places, max(2, num_rows // 1_000_000)
    made = [
        client.submit(make_part, folder, number, num_parts, num_places, num_times, pure=False)
        for number in range(num_parts)
    ]
    client.gather(made)
    size = sum(file.stat().st_size for file in pathlib.Path(folder).iterdir()) / 1e9
    gp = weft.SpaceTimeGP(time="hour", space=("x", "y"), target="value", progress=None)
    before = peak()
    begun = time.perf_counter()
    gp.fit(folder, client=client)
    fitted = time.perf_counter()
    print("fitted", fitted - begun, flush=True)
    peaks = peak(), sorted(client.run(peak).values())
    lazy = gp.predict(distributed_table(folder))
    lazy.to_parquet(pathlib.Path(folder) / "predictions")
    return {
        "rows": num_places * num_times,
        "memory_of_a_worker": memory,
        "gigabytes_of_files": size,
        "fit_seconds": fitted - begun,
        "fit_peak_gigabytes_of_client": peaks[0],
        "fit_peak_gigabytes_of_workers": peaks[1],
        "predict_seconds": time.perf_counter() - fitted,
        "peak_gigabytes_of_client_before": before,
        "peak_gigabytes_of_client": peak(),
        "peak_gigabytes_of_workers": sorted(client.run(peak).values()),
    }


def distributed_table(folder: str) -> Any:
    from weft.distributed.files import open_lazily

    return open_lazily(folder, num_pieces=2)


RUNS: dict[str, Callable[[distributed.Client], dict[str, Any]]] = {
    # An evaluation of as much work as a fit takes by itself, and of twenty times as much.
    "learning": functools.partial(learning, operations=4e9),
    "much_learning": functools.partial(learning, operations=8e10),
    "regions": regions,
    "times": times,
}
PARTS = ("switches", *RUNS, "table")


@contextlib.contextmanager
def workers_of(memory: str) -> Iterator[distributed.Client]:
    """Two of them, with so much memory each; "0" for as much as there is."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=memory,
            dashboard_address="127.0.0.1:0",
            env=WORKER_ENVIRONMENT,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--memory", default="1GB", help="of each worker for the table")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    found: dict[str, Any] = dict(read_results("scale")) | {"load_at_the_start": os.getloadavg()[0]}
    if "switches" in asked.only:
        found["switches"] = switches()
        write_results("scale", found)
    shared = [name for name in RUNS if name in asked.only]
    with workers_of("0") if shared else contextlib.nullcontext() as client:
        for name in shared:
            found[name] = RUNS[name](client)
            print(name, found[name], flush=True)
            write_results("scale", found)
    if "table" in asked.only:
        with tempfile.TemporaryDirectory() as folder, workers_of(asked.memory) as client:
            found["table"] = table(client, asked.rows, asked.memory, folder)
            print("table", found["table"])
    print(write_results("scale", found))


if __name__ == "__main__":
    main()
