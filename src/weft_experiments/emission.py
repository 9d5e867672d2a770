# SPDX-License-Identifier: MIT
"""The appendix's comparison of ways to condition on the rows of one time, over the number of rows, with weft's own beside it."""

import functools
import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import threadpoolctl

from weft.data.layout import Layout
from weft.engines.base import shape_of_chain
from weft.engines.choose import choose_engine
from weft.kernels import Matern12, Matern32, Matern52
from weft.kernels.base import Kernel
from weft.state_space.chain import Chain, ComponentChain, Rows
from weft_experiments.figures import BLACK, COLOURS, new_figure, save
from weft_experiments.options import RunOptions
from weft_experiments.results import Results, check, checks_table, provenance, say, table
from weft_experiments.timing import Repeats, least_seconds
from weft_experiments.updates import UPDATES, Step

__all__ = ["measure", "page"]

LATENT: dict[int, Kernel] = {1: Matern12(1.2), 2: Matern32(1.2), 3: Matern52(1.2)}
STEP = 0.4
# The engine works on a series: the time of one this long, over its steps.
NUM_STEPS = 40
ENGINE = "weft, engine"
LOOKS = {
    "naive": (BLACK, "o", "-"),
    "low rank": ("#d01c1c", "s", "-"),
    "bottleneck": (COLOURS[0], "^", "-"),
    "weft, NumPy": (COLOURS[2], "D", "-"),
    ENGINE: (COLOURS[2], "v", "--"),
}


def measure(options: RunOptions) -> Results:
    num_pseudo = (options.pseudo_points or ((20,) if options.quick else (100,)))[0]
    shares = (0.1, 1.0, 10.0) if options.quick else (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
    repeats = Repeats(5, 0.05) if options.quick else Repeats(200, 1.0)
    if options.max_seconds is not None:
        repeats = repeats._replace(max_seconds=options.max_seconds)
    rows: list[dict[str, Any]] = []
    # One thread, as the paper.
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        for num_latent, share in itertools.product(LATENT, shares):
            num_rows = max(round(share * num_pseudo), 1)
            rows.extend(compare(num_latent, num_pseudo, num_rows, options.seed, repeats))
            say(f"emission: D = {num_latent}, N = {num_rows}")
    figure = draw(rows, options)
    return {"num_pseudo": num_pseudo, "rows": rows, "figures": [figure], "checks": checks(rows)}


def make_step(num_latent: int, num_pseudo: int, num_rows: int, seed: int) -> Step:
    """A state whose covariance is no multiple of its prior, as after some earlier rows."""
    rng = np.random.default_rng([seed, num_latent, num_rows])
    size = num_latent * num_pseudo
    basis = rng.normal(size=(size, size)) / np.sqrt(size)
    covariance = basis @ basis.T + 0.1 * np.eye(size)
    noise = rng.uniform(0.1, 1.1, num_rows)
    weights = rng.normal(size=(num_rows, num_pseudo)) / np.sqrt(num_pseudo)
    readout = np.eye(num_pseudo, size)
    return Step(rng.normal(size=size), covariance, readout, weights, noise, rng.normal(size=num_rows))


def compare(num_latent: int, num_pseudo: int, num_rows: int, seed: int, repeats: Repeats) -> list[dict[str, Any]]:
    step = make_step(num_latent, num_pseudo, num_rows, seed)
    expected = UPDATES["naive"](step)
    common = {"num_latent": num_latent, "num_rows": num_rows}
    found = []
    for name, update in UPDATES.items():
        timed = least_seconds(functools.partial(update, step), repeats)
        errors = [
            np.max(np.abs(np.asarray(mine) - np.asarray(theirs))) / np.max(np.abs(np.asarray(theirs)))
            for mine, theirs in zip(timed.value, expected, strict=True)
        ]
        found.append(
            {**common, "method": name, "processor_seconds": timed.processor_seconds, "error": float(max(errors))}
        )
    return [*found, {**common, "method": ENGINE, "processor_seconds": engine_seconds(num_latent, step, repeats)}]


def engine_seconds(num_latent: int, step: Step, repeats: Repeats) -> float:
    """One step of the engine, its prediction to the next time and a share of the call's cost included."""
    num_rows, num_pseudo = step.weights.shape
    layout = Layout(np.arange(NUM_STEPS + 1) * num_rows)
    place = np.tile(np.arange(num_rows), NUM_STEPS)
    rows = Rows(layout, place, np.tile(step.values, NUM_STEPS), np.tile(1 / step.noise, NUM_STEPS))
    chain = make_chain(num_latent, num_pseudo, NUM_STEPS)
    engine = choose_engine("auto", shape_of_chain(chain, step.weights, layout))
    return least_seconds(lambda: engine.last_state(chain, step.weights, rows), repeats).processor_seconds / NUM_STEPS


def make_chain(num_latent: int, num_pseudo: int, num_times: int) -> Chain:
    form = LATENT[num_latent].state_space()
    zero, nothing = np.eye(num_latent), np.zeros((num_latent, num_latent))
    component = ComponentChain(
        transition=np.stack([zero, np.asarray(form.transition(jnp.asarray(STEP)))]),
        process_noise=np.stack([nothing, np.asarray(form.process_noise(jnp.asarray(STEP)))]),
        initial=np.asarray(form.covariance(jnp.asarray(0.0))),
        readout=np.asarray(form.readout),
        num_pseudo=num_pseudo,
        reversal=form.reversal,
    )
    return Chain((component,), np.minimum(np.arange(num_times), 1).astype(np.int32))


def seconds_of(rows: list[dict[str, Any]], method: str, num_latent: int, num_rows: int) -> float:
    return next(
        row["processor_seconds"]
        for row in rows
        if (row["method"], row["num_latent"], row["num_rows"]) == (method, num_latent, num_rows)
    )


def checks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    error = max(row["error"] for row in rows if "error" in row)
    fewest, most = min(row["num_rows"] for row in rows), max(row["num_rows"] for row in rows)

    def ratio(first: str, second: str, num_latent: int, num_rows: int) -> float:
        return seconds_of(rows, first, num_latent, num_rows) / seconds_of(rows, second, num_latent, num_rows)

    few = [ratio("low rank", "naive", latent, fewest) for latent in LATENT]
    many = [ratio("naive", "low rank", latent, most) for latent in LATENT]
    narrow = [ratio("low rank", "bottleneck", latent, most) for latent in (2, 3)]
    own = [
        min(seconds_of(rows, method, latent, row["num_rows"]) for method in ("naive", "low rank", "bottleneck"))
        / seconds_of(rows, ENGINE, latent, row["num_rows"])
        for latent in LATENT
        for row in rows
        if row["method"] == ENGINE and row["num_latent"] == latent
    ]
    return [
        check("all updates agree to 1e-8, relatively", error < 1e-8, f"{error:.1e} at the most"),
        check(f"naive is faster than low rank for few rows (N = {fewest})", min(few) > 1, spread(few)),
        check(f"low rank is faster than naive for many (N = {most:,})", min(many) > 1, spread(many)),
        check(
            "bottleneck is as fast as low rank or faster for D of 2 and 3 and many rows",
            min(narrow) > 0.9,
            spread(narrow),
        ),
        check("a step of weft's engine is faster than the best of the three", min(own) > 1, spread(own)),
    ]


def spread(ratios: list[float]) -> str:
    return f"{min(ratios):.1f} to {max(ratios):.1f} times"


def draw(rows: list[dict[str, Any]], options: RunOptions) -> str:
    figure, axes = new_figure(1, len(LATENT), width=3.4, height=3.0, sharey=True)
    for axis, num_latent in zip(axes[0], LATENT, strict=True):
        for method, (colour, marker, line) in LOOKS.items():
            here = [row for row in rows if row["method"] == method and row["num_latent"] == num_latent]
            axis.plot(
                [row["num_rows"] for row in here],
                [row["processor_seconds"] for row in here],
                color=colour,
                marker=marker,
                linestyle=line,
                markersize=4,
                label=method,
            )
        axis.set(xscale="log", yscale="log", xlabel="rows N")
        axis.set_title(f"D = {num_latent}", fontsize=9)
    axes[0, 0].set_ylabel("processor seconds")
    axes[0, 0].legend(fontsize=7, frameon=False)
    return save(figure, options.output, "updates.png")


def page(results: Results) -> str:
    rows = results["rows"]
    counts = sorted({row["num_rows"] for row in rows})
    parts = [
        "# Conditioning on the rows of one time",
        "Processor seconds for the log likelihood of N rows and the posterior of the state, with "
        f"{results['num_pseudo']} pseudo-points and D latent dimensions each (Matern-1/2, 3/2 and 5/2). The paper publishes no "
        "script of this comparison, only its text and a figure. Naive, low rank and bottleneck are its Algorithms 1 to 3 with "
        "their slips put right, in NumPy and SciPy on one thread; *weft, NumPy* is weft's update written the same way; "
        "*weft, engine* is one step of the compiled engine, prediction to the next time included. "
        "weft's state is whitened: of the prior it needs D x D numbers only.",
        checks_table(results["checks"]),
        "![seconds against rows](updates.png)",
    ]
    for num_latent in sorted({row["num_latent"] for row in rows}):
        body = [
            (method, *(f"{1000 * seconds_of(rows, method, num_latent, count):.3g}" for count in counts))
            for method in LOOKS
        ]
        parts += [f"D = {num_latent}, milliseconds:", table(("update", *(f"N = {count}" for count in counts)), body)]
    return "\n\n".join([*parts, provenance(results)])
