# SPDX-License-Identifier: MIT
"""What do more workers bring, and what does a table larger than a worker's memory take?

    python benchmarks/scale.py [--rows 50000000] [--memory 1GB] [--only switches learning much_learning regions times table answers]

`switches`: rows by switches beside rows time by time in the same process, of as many rows as a table of the United States has a day.

`learning`, `much_learning` and `regions`: one evaluation of all blocks and one answer of all regions by one worker and by two, and from
the seconds of each task a *replay* on 8, 32 and 128 workers: tasks in their order, each to the worker that is free first. A replay knows
nothing of networks; it says what the sizes of tasks allow. *Overhead* is the part of the clock beyond a replay of the same tasks on as many
workers: what it takes to send, schedule and gather them. That one worker waits for the other's last task is in the replay, and is told
apart as *imbalance*. Pieces are sent once, before the evaluations of a fit or the answers of a model, and those seconds are told too.

`times`: one long series by blocks of times on two workers, beside the cpu engine from both ends on the same two processors, and the
operations of both, counted. `table`: a made table in parquet files, fitted by two workers with so much memory each; `answers`: it is
predicted by the model that was saved beside it, in a process that has learned nothing. Results go to benchmarks/results/scale.json; parts
that are not asked for stay as they were.
"""

import argparse
import concurrent.futures
import contextlib
import functools
import heapq
import multiprocessing
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dask.dataframe as dd
import distributed
import jax
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import scipy.signal
from memory import resident_megabytes
from results import read_results, write_results

import weft
from weft.data.layout import Layout
from weft.data.parts import Part, parts_of, read_part
from weft.distributed import tasks_on
from weft.distributed.clients import NANNY_SETTINGS, WORKER_ENVIRONMENT
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

BEGUN = time.perf_counter()
REPLAYED = (8, 32, 128)
REPEATS = 3


class Timed(Executor):
    """Another executor, with the seconds of each task of the last call, on the clock and of the processor."""

    def __init__(self, inner: Executor):
        self.inner = inner
        self.seconds: list[float] = []
        self.processor_seconds: list[float] = []

    def hold(self, piece: Any) -> Any:
        return self.inner.hold(piece)

    def map(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        names: Sequence[str] | None = None,
        again: bool = False,
        arrived: Callable[[int, Any], None] | None = None,
    ) -> list[Any]:
        assert arrived is None
        found = self.inner.map(functools.partial(timed, function), *columns, names=names, again=again)
        self.seconds = [seconds for seconds, _, _ in found]
        self.processor_seconds = [seconds for _, seconds, _ in found]
        return [answer for _, _, answer in found]


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, float, Any]:
    begun = time.perf_counter(), time.process_time()
    answer = jax.block_until_ready(function(*arguments))
    return time.perf_counter() - begun[0], time.process_time() - begun[1], answer


def replay(seconds: Sequence[float], workers: int) -> dict[str, float]:
    """When the last of these tasks would be done, and the part of the workers' time that they take."""
    free = [0.0] * workers
    for each in seconds:
        heapq.heappush(free, heapq.heappop(free) + each)
    return {"seconds": max(free), "efficiency": sum(seconds) / (max(free) * workers)}


def by_workers(client: distributed.Client, prepare: Callable[[], Callable[[], Any]]) -> dict[str, Any]:
    """The work that `prepare` gives, by one worker and by two, the fastest of some turns after one that compiles.

    Of a busy machine the clock tells nothing; the part of all processor seconds, of client and workers, that is not in tasks does.
    """
    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
    found: dict[str, Any] = {}
    for count in (1, 2):
        executor = Timed(OnDask(client, addresses[:count]))
        with tasks_on(executor):
            begun = time.perf_counter()
            work = prepare()
            found[f"seconds_to_prepare_{count}"] = time.perf_counter() - begun
            work()
            turns = []
            for _ in range(REPEATS):
                begun, spent = time.perf_counter(), processors_of(client)
                work()
                wall, spent = time.perf_counter() - begun, processors_of(client) - spent
                turns.append((wall, executor.seconds, executor.processor_seconds, spent))
        wall, tasks, by_processor, spent = min(turns)
        found[f"seconds_{count}"] = wall
        replayed = replay(tasks, count)
        found[f"overhead_{count}"] = 1 - replayed["seconds"] / wall
        found[f"imbalance_{count}"] = 1 - replayed["efficiency"]
        found[f"processor_overhead_{count}"] = 1 - sum(by_processor) / spent
        found["load"] = os.getloadavg()[0]
    found["speedup"] = found["seconds_1"] / found["seconds_2"]
    found["tasks"] = len(tasks)
    found["replay"] = {str(count): replay(by_processor, count) for count in REPLAYED}
    return found


def processors_of(client: distributed.Client) -> float:
    """Processor seconds of this process and of all workers, since they began."""
    return time.process_time() + sum(client.run(time.process_time).values())


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
    start = space.start(model())

    def prepare() -> Callable[[], Any]:
        """As a climb does it: blocks are sent to the workers once, then evaluated at one point after another."""
        return functools.partial(CompositeObjective(space, model(), chosen, (), power=0.0, engine="auto"), start)

    return by_workers(client, prepare)


def regions(client: distributed.Client) -> dict[str, Any]:
    posterior = condition_regions(model(), stations(400, 500))
    return by_workers(client, lambda: posterior.fitted_values)


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


NUM_PLACES = 2000
ROWS_A_FILE = 500_000
# A worker answers for so much of a file at a time: each piece is answered from what is remembered before and after it too.
PIECES = 1
# Hours after which the field of the made table is another.
MEMORY = 3.0
WAVES = 40


def make_part(folder: str, number: int, num_parts: int, num_times: int) -> None:
    """One file of a made table: all places, a stretch of the hours, and columns that no model asks for.

    The field is of waves in space, each times a series that forgets (Ornstein-Uhlenbeck); all files are of one field.
    """
    shared, rng = np.random.default_rng(3), np.random.default_rng([3, number])
    places = shared.uniform(0, 1000, (NUM_PLACES, 2))
    frequency, phase = shared.normal(size=(WAVES, 2)) / 120, shared.uniform(0, 2 * np.pi, WAVES)
    kept = np.exp(-1 / MEMORY)
    series = scipy.signal.lfilter([np.sqrt(1 - kept**2)], [1, -kept], shared.normal(size=(num_times, WAVES)), axis=0)
    hours = np.arange(number * num_times // num_parts, (number + 1) * num_times // num_parts)
    field = series[hours] @ (np.sqrt(2 / WAVES) * np.cos(places @ frequency.T + phase)).T
    hour, place = np.repeat(hours, NUM_PLACES), np.tile(np.arange(NUM_PLACES), len(hours))
    value = 10 + 5 * field.reshape(-1) + 2 * rng.normal(size=len(hour))
    more = {name: rng.normal(size=len(hour)) for name in ("pressure", "wind", "battery", "signal")}
    frame = pd.DataFrame({"hour": hour, "x": places[place, 0], "y": places[place, 1], "value": value, **more})
    frame.to_parquet(pathlib.Path(folder) / f"part-{number:04d}.parquet", index=False)


def only_needed(folder: str, pieces: int) -> Any:
    """The made table on Dask, with the columns that are of use; each file in so many pieces."""
    parts = [(part, number) for part in parts_of(f"{folder}/part-*.parquet") for number in range(pieces)]
    read = functools.partial(piece_of, pieces=pieces)
    return dd.from_map(read, parts, meta=read(parts[0]).iloc[:0])


def piece_of(told: tuple[Part, int], pieces: int) -> pd.DataFrame:
    part, number = told
    frame = read_part(part, columns=["hour", "x", "y", "value"])
    first, last = (len(frame) * end // pieces for end in (number, number + 1))
    return frame.iloc[first:last]


def make_table(num_rows: int, folder: str) -> int:
    """Files of half a million rows each, unless they are there already; the number of hours."""
    num_times, num_parts = num_rows // NUM_PLACES, max(2, num_rows // ROWS_A_FILE)
    # By processes of their own, so that the workers' peaks are of what is measured.
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as makers:
        made = [
            makers.submit(make_part, folder, number, num_parts, num_times)
            for number in range(num_parts)
            if not (pathlib.Path(folder) / f"part-{number:04d}.parquet").exists()
        ]
        for each in made:
            each.result()
    return num_times


def peak() -> float:
    """The most this process had in memory, in GB; the system's other count has what the process had that started it."""
    return resident_megabytes("VmHWM") * 1024**2 / 1e9


def table(client: distributed.Client, num_rows: int, memory: str, folder: str) -> dict[str, Any]:
    """Fitted from files, with what every process took of memory and processors."""
    num_times = make_table(num_rows, folder)
    size = sum(file.stat().st_size for file in pathlib.Path(folder).glob("*.parquet")) / 1e9
    workers = set(client.run(os.getpid).values())
    found = {
        "rows": NUM_PLACES * num_times,
        "places": NUM_PLACES,
        "memory_of_a_worker": memory,
        "gigabytes_of_files": size,
        "peak_gigabytes_of_client_before": peak(),
        "load": [os.getloadavg()[0]],
    }
    gp = weft.SpaceTimeGP(
        time="hour", space=("x", "y"), target="value", components=("fast",), time_step=None, progress=None
    )
    gp.fit(f"{folder}/part-*.parquet", client=client)
    found["processor_seconds_of_fit"] = {
        phase: round(spent.processor_seconds, 1) for phase, spent in gp.timings_.items()
    }
    say(found, "fit", client)
    model = pathlib.Path(folder) / "model.weft"
    gp.save(model)
    found["gigabytes_of_model"] = model.stat().st_size / 1e9
    say(found, "save", client)
    found["workers_lost"] = len(workers - set(client.run(os.getpid).values()))
    return found


def answers(client: distributed.Client, folder: str, every: int) -> dict[str, Any]:
    """One of so many files of the table predicted into files, by the model that was saved beside them."""
    workers = set(client.run(os.getpid).values())
    found: dict[str, Any] = {"load": [os.getloadavg()[0]], "one_file_of": every}
    gp = weft.load(pathlib.Path(folder) / "model.weft")
    parts = only_needed(folder, PIECES)
    chosen = [number for number in range(parts.npartitions) if number // PIECES % every == 0]
    predictions = pathlib.Path(folder) / "predictions"
    shutil.rmtree(predictions, ignore_errors=True)
    begun = time.perf_counter()
    gp.predict(parts.partitions[chosen]).to_parquet(predictions)
    found["seconds_on_the_clock"] = time.perf_counter() - begun
    say(found, "predict", client, "answers")
    files = sorted(predictions.glob("*.parquet"))
    found["rows_predicted"] = sum(pq.read_metadata(file).num_rows for file in files)
    found["workers_lost"] = len(workers - set(client.run(os.getpid).values()))
    found |= scores(files)
    return found


def say(found: dict[str, Any], step: str, client: distributed.Client, part: str = "table") -> None:
    """What a step took of the clock and of processors, and the most memory that any process had so far."""
    own, theirs = time.process_time(), sum(client.run(time.process_time).values())
    found[f"after_{step}"] = {
        "peak_gigabytes_of_client": peak(),
        "peak_gigabytes_of_workers": sorted(client.run(peak).values()),
        "processor_seconds_of_client_so_far": own,
        "processor_seconds_of_workers_so_far": theirs,
        "seconds_on_the_clock_so_far": time.perf_counter() - BEGUN,
    }
    found["load"].append(os.getloadavg()[0])
    print(step, found, flush=True)
    write_results("scale", dict(read_results("scale")) | {part: found})


def scores(files: Sequence[pathlib.Path]) -> dict[str, float]:
    """Of some of the files that were predicted: the error, which is the noise's and a little more, and what the intervals hold."""
    frame = pd.concat(
        [pd.read_parquet(file, columns=["value", "mean", "sd"]) for file in files[:: max(1, len(files) // 3)]]
    )
    error = frame["value"] - frame["mean"]
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mean_sd": float(frame["sd"].mean()),
        "within_two_sd": float(np.mean(np.abs(error) < 2 * frame["sd"])),
        "num_scored": len(frame),
    }


RUNS: dict[str, Callable[[distributed.Client], dict[str, Any]]] = {
    # An evaluation of as much work as a fit takes by itself, and of twenty times as much.
    "learning": functools.partial(learning, operations=4e9),
    "much_learning": functools.partial(learning, operations=8e10),
    "regions": regions,
    "times": times,
}
PARTS = ("switches", *RUNS, "table", "answers")


@contextlib.contextmanager
def workers_of(memory: str) -> Iterator[distributed.Client]:
    """Two of them, with so much memory each; "0" for as much as there is.

    Libraries take more than half of a small worker, so that Dask's own bounds, which are shares of all, would stop it early: it stops
    at nine tenths here.
    """
    import dask

    shares = {"distributed.worker.memory.pause": 0.9, "distributed.worker.memory.spill": 0.85}
    with (
        dask.config.set(shares | NANNY_SETTINGS),
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
    parser.add_argument("--folder", help="where the made table is, or goes to and stays; a temporary one unless given")
    parser.add_argument("--every", type=int, default=1, help="one of so many files of the table is predicted")
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
    with contextlib.nullcontext(asked.folder) if asked.folder else tempfile.TemporaryDirectory() as folder:
        if "table" in asked.only:
            with workers_of(asked.memory) as client:
                found["table"] = table(client, asked.rows, asked.memory, folder)
        if "answers" in asked.only:
            with workers_of(asked.memory) as client:
                found["answers"] = answers(client, folder, asked.every)
    print(write_results("scale", found))


if __name__ == "__main__":
    main()
