# SPDX-License-Identifier: MIT
"""Time and tightness of the bound on synthetic data: the paper's section on benchmarking and its appendix.

Two layouts (arbitrary places; a grid with missing rows), two kernels, and four methods: exact by a dense matrix, exact by a
state-space model with all places, and pseudo-points in a state-space model. Beyond the paper the gradient is timed too.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from weft.data.observations import Observations
from weft.inference.evidence import log_evidence
from weft.inference.prior import sizes_at
from weft.likelihoods import Gaussian
from weft.model import Model
from weft.training.fitting import LARGE
from weft_experiments import benchmark_page, pictures
from weft_experiments.dense import dense_bound, exact_log_evidence
from weft_experiments.options import RunOptions
from weft_experiments.results import Results, Steps, check, number, say
from weft_experiments.synthetic import (
    KERNELS,
    LAYOUTS,
    VARIANTS,
    Variant,
    components_of,
    make_kernel,
    make_problem,
    pseudo_points,
)
from weft_experiments.timing import Repeats, Timed, least_seconds

__all__ = ["measure", "page"]

page = benchmark_page.page

# The largest dense matrix, by rows; and by pseudo-points over all times where the dense bound is computed as well.
DENSE_ROWS, DENSE_PSEUDO = 10_000, 1000
# A timing that would take more processor seconds than this, by the last one and the number of times, is left out.
TOO_LONG = 300.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is timed: numbers of times and of pseudo-points (None is all places), which with gradient, and for how long."""

    num_times: tuple[int, ...]
    gradient_pseudo: tuple[int | None, ...]
    num_pseudo: tuple[int, ...]
    dense_rows: int
    max_repeats: int
    max_seconds: float
    picture_times: int


FULL = Plan(benchmark_page.PAPER_TIMES, (None, 5, 10, 20), (5, 10, 20), DENSE_ROWS, 50, 0.5, 100)
QUICK = Plan((40,), (20,), (5, 20), 2000, 3, 0.1, 20)


def plan_of(options: RunOptions) -> Plan:
    plan = QUICK if options.quick else FULL
    if options.num_times is not None:
        plan = dataclasses.replace(plan, num_times=tuple(sorted(options.num_times)))
    if options.max_seconds is not None:
        plan = dataclasses.replace(plan, max_seconds=options.max_seconds)
    if options.pseudo_points is not None:
        sizes = tuple(options.pseudo_points)
        plan = dataclasses.replace(plan, num_pseudo=sizes, gradient_pseudo=(None, *sizes))
    return plan


def measure(options: RunOptions) -> Results:
    plan, variant, steps = plan_of(options), VARIANTS[options.variant], Steps("benchmark", options)
    rows: list[dict[str, Any]] = []
    left_out: list[str] = []
    for layout, kernel, num_times in itertools.product(LAYOUTS, KERNELS, plan.num_times):
        step = f"{layout}, {kernel}, {num_times:,} times"
        work = functools.partial(measure_problem, plan, variant, (layout, kernel, num_times), options.seed, rows)
        found = steps.once(step, work)
        rows, left_out = rows + found["rows"], left_out + found["left_out"]
        # Nobody needs the programs of this length again, and a process cannot hold those of all lengths: it may map only so
        # many pieces of memory.
        jax.clear_caches()
        say(f"benchmark: {step}")
    shown = pictures.draw_posteriors(variant, plan.picture_times, options.seed, options.output)
    results = {
        "settings": dataclasses.asdict(plan),
        "rows": rows,
        "left_out": left_out,
        "pictures": shown,
        "figures": benchmark_page.draw(rows, options.output),
    }
    return {**results, "checks": checks(rows, shown)}


def expected_seconds(rows: list[dict[str, Any]], row: dict[str, Any], field: str) -> float:
    """What a method would take by what it took before, in processor seconds; 0 where nothing is known of it."""
    same = {name: row[name] for name in ("layout", "kernel", "method", "num_pseudo")}
    before = [earlier for earlier in select(rows, **same) if field in earlier]
    return before[-1][field] / before[-1]["num_times"] * row["num_times"] if before else 0.0


def measure_problem(
    plan: Plan, variant: Variant, where: tuple[str, str, int], seed: int, before: list[dict[str, Any]]
) -> Results:
    """All methods on one set of rows; what would take too long, by the rows measured before, is left out and named."""
    layout, kernel, num_times = where
    problem = make_problem(variant, kernel, layout, num_times, seed)
    components, repeats = components_of(variant, kernel), Repeats(plan.max_repeats, plan.max_seconds)
    common = {"layout": layout, "kernel": kernel, "num_times": num_times, "num_rows": problem.num_rows}
    found, left_out = [], []

    def allowed(row: dict[str, Any], field: str) -> bool:
        expected = expected_seconds(before, row, field)
        if expected > TOO_LONG:
            of = " with gradient" if field.startswith("gradient") else ""
            name = f"{layout}, {kernel}, {benchmark_page.method_name(row)}{of}"
            left_out.append(f"{name}, {num_times:,} times (about {expected:.0f} s)")
        return expected <= TOO_LONG

    if problem.num_rows <= plan.dense_rows:
        timed = least_seconds(
            lambda: exact_log_evidence(components, variant.smoothness, problem), repeats, warm_up=False
        )
        found.append({**common, "method": "exact dense", "log_evidence": timed.value, **spent(timed)})
    grouping = least_seconds(problem.observations, Repeats(1, 0.0), warm_up=False)
    data = grouping.value
    # All places of an arbitrary layout differ, so a state-space model with all of them would be larger than a dense one.
    for size in (None, *plan.num_pseudo) if layout == "grid" else plan.num_pseudo:
        points = None if size is None else pseudo_points(variant, layout, size)
        model = Model(make_kernel(variant, kernel), Gaussian(0.0), points)
        row = {**common, "method": "state space" if size is None else "pseudo-points", "num_pseudo": size}
        if not allowed(row, "processor_seconds"):
            continue
        timed = least_seconds(evaluation(model, data), repeats)
        row |= {"log_evidence": timed.value, **spent(timed)}
        if size in plan.gradient_pseudo and allowed(row, "gradient_processor_seconds"):
            row |= spent(least_seconds(differentiation(model, data), repeats), "gradient_")
        if points is not None and len(points) * num_times * len(components) <= DENSE_PSEUDO:
            row["dense_bound"] = dense_bound(components, variant.smoothness, problem, points).log_evidence
        found.append({**row, "grouping_seconds": grouping.seconds})
    return {"rows": found, "left_out": left_out}


def spent(timed: Timed, prefix: str = "") -> dict[str, float]:
    return {f"{prefix}seconds": timed.seconds, f"{prefix}processor_seconds": timed.processor_seconds}


def evaluation(model: Model, data: Observations) -> Callable[[], float]:
    """The evidence from kernel and rows, chain and features included, as the paper timed it."""
    function = compiled_as_in_a_fit(log_evidence, model, data)
    return lambda: float(function(model, data))


def differentiation(model: Model, data: Observations) -> Callable[[], Any]:
    """The evidence and its gradient in all parameters, pseudo-points included."""
    function = compiled_as_in_a_fit(jax.value_and_grad(log_evidence), model, data)
    return lambda: jax.block_until_ready(function(model, data))


def compiled_as_in_a_fit(function: Callable[..., Any], model: Model, data: Observations) -> Callable[..., Any]:
    """The function as learning calls it: compiled as a whole unless the engine's work dwarfs the rest."""
    num_pseudo = sum(sizes_at(model, data.places))
    work = num_pseudo**2 * (num_pseudo * len(data.times) + data.num_rows)
    return eqx.filter_jit(function) if work < LARGE else function


# --- what should show --------------------------------------------------------------------------------------------------------


def select(rows: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def checks(rows: list[dict[str, Any]], shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    errors = [abs(row["log_evidence"] / row["dense_bound"] - 1) for row in rows if "dense_bound" in row]
    worst_picture = max(max(picture["mean_error"], picture["deviation_error"]) for picture in shown)
    return [
        below("the bound is within 1e-6 of the dense one, relatively", errors, 1e-6),
        exactness(rows),
        *tightness(rows),
        speed(rows),
        linear_growth(rows),
        check(
            "posterior means and deviations are within 1e-7 of dense ones", worst_picture < 1e-7, f"{worst_picture:.1e}"
        ),
    ]


def exactness(rows: list[dict[str, Any]]) -> dict[str, Any]:
    exact = {key(row): row["log_evidence"] for row in rows if row["method"] == "exact dense"}
    errors = [
        abs(row["log_evidence"] / exact[key(row)] - 1)
        for row in select(rows, method="state space")
        if key(row) in exact
    ]
    return below("the state-space evidence with all places is within 1e-6 of the dense one, relatively", errors, 1e-6)


def below(claim: str, numbers: list[float], limit: float) -> dict[str, Any]:
    """A claim that no number reaches the limit; untested where there are none."""
    return check(claim, max(numbers) < limit if numbers else None, f"{max(numbers):.1e} at the most" if numbers else "")


def key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["layout"], row["kernel"], row["num_times"]


def gaps(rows: list[dict[str, Any]], size: int) -> list[float]:
    """Exact evidence less the bound, per row of data, wherever a dense or state-space computation knows the former."""
    exact = {key(row): row["log_evidence"] for row in rows if row["method"] in ("exact dense", "state space")}
    return [
        (exact[key(row)] - row["log_evidence"]) / row["num_rows"]
        for row in select(rows, num_pseudo=size)
        if key(row) in exact
    ]


def tightness(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    few = gaps(rows, 5)
    return [
        below("with 20 pseudo-points the bound is tight (0.001 a row or less)", gaps(rows, 20), 1e-3),
        check(
            "with 5 it is loose (0.02 a row or more)",
            min(few) > 0.02 if few else None,
            f"{min(few):.3f} at the least" if few else "",
        ),
    ]


def speed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    claim = "on the grid, 20 pseudo-points are at least 3 times as fast as the state-space model with all places, from 1,000 times on"
    vanilla = {
        key(row): row["processor_seconds"] for row in select(rows, method="state space") if row["num_times"] >= 1000
    }
    ratios = {
        key(row): vanilla[key(row)] / row["processor_seconds"]
        for row in select(rows, layout="grid", num_pseudo=20)
        if key(row) in vanilla
    }
    if not ratios:
        return check(claim, None, "")
    least = min(ratios, key=lambda where: ratios[where])
    detail = f"{ratios[least]:.1f} times at the least ({least[1]}, {number(least[2])} times)"
    return check(claim, ratios[least] >= 3, detail)


def linear_growth(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The power of the number of times that the seconds follow, over the last factor of ten (20 pseudo-points)."""
    claim = "time grows linearly in the number of times, up to 100,000"
    powers = []
    for layout, kernel in itertools.product(LAYOUTS, KERNELS):
        found = {
            row["num_times"]: row["processor_seconds"]
            for row in select(rows, layout=layout, kernel=kernel, num_pseudo=20)
        }
        if {10_000, 100_000} <= set(found):
            powers.append(float(np.log10(found[100_000] / found[10_000])))
    if not powers:
        return check(claim, None, "")
    # A tenth of a power either way is what a shared machine does to a minimum of repeats.
    return check(
        claim,
        max(powers) < 1.15,
        f"seconds follow the {min(powers):.2f}th to {max(powers):.2f}th power from 10,000 to 100,000 times",
    )
