# SPDX-License-Identifier: MIT
"""What do more workers bring, and what does a table larger than a worker's memory take?

    python benchmarks/scale.py [--rows 50000000] [--memory 1GB] [--only learning much_learning regions times table]

`learning`, `much_learning` and `regions`: one evaluation of all blocks and one answer of all regions by one worker and by two, and from
the seconds of each task a *replay* on 8, 32 and 128 workers: tasks in their order, each to the worker that is free first. A replay knows
nothing of networks; it says what the sizes of tasks allow. `times`: one long series by blocks of times on two workers, beside the cpu
engine from both ends on the same two processors. `table`: a made table in parquet files, fitted and predicted by two workers with so
much memory each. Results go to benchmarks/results/scale.json; parts that are not asked for stay as they were.
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
from weft.engines.cpu import CpuEngine
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
            walls = []
            for _ in range(REPEATS):
                begun = time.perf_counter()
                work()
                walls.append(time.perf_counter() - begun)
        found[f"seconds_{count}"] = min(walls)
        found[f"overhead_{count}"] = 1 - sum(executor.seconds) / (count * min(walls))
    found["speedup"] = found["seconds_1"] / found["seconds_2"]
    found["tasks"] = len(executor.seconds)
    found["replay"] = {str(count): replay(executor.seconds, count) for count in REPLAYED}
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
    return found


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
    begun = time.perf_counter()
    gp.fit(folder, client=client)
    fitted = time.perf_counter()
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
PARTS = (*RUNS, "table")


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
    with workers_of("0") as client:
        for name, run in RUNS.items():
            if name in asked.only:
                found[name] = run(client)
                print(name, found[name], flush=True)
    if "table" in asked.only:
        with tempfile.TemporaryDirectory() as folder, workers_of(asked.memory) as client:
            found["table"] = table(client, asked.rows, asked.memory, folder)
            print("table", found["table"])
    print(write_results("scale", found))


if __name__ == "__main__":
    main()
