# SPDX-License-Identifier: MIT
"""A model's answers from file to file. Whatever can be refused is, before the long work; outputs are whole or absent."""

import contextlib
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from weft.data.files import read_table, tables_to_answer, write_pieces, write_table
from weft.data.outputs import check_outputs
from weft.data.parts import PartsAlike, is_of_parts
from weft.distributed import tasks_on
from weft.distributed.clients import is_dask_client, num_workers
from weft.distributed.files import computed_in_order, open_lazily
from weft.estimator.filling import unseen_said_once
from weft.inference.watching import tasks_shown
from weft.loading import load_estimator
from weft.options import Of
from weft.project.asked import columns_of, files_to_ask, has_rows, places_of, rows_for, rows_of_files, rows_to_answer
from weft.report import ReportContent, build_report
from weft.report.build import check_threshold
from weft.space_time_gp import SpaceTimeGP

__all__ = [
    "Update",
    "aggregate_file",
    "audit_file",
    "fill_file",
    "forecast_file",
    "grid_file",
    "load_target",
    "point_file",
    "predict_file",
    "predicted_pieces",
    "report_file",
    "sample_file",
    "suggest_file",
    "update_file",
]


def predict_file(
    model: pathlib.Path,
    table: pathlib.Path,
    output: pathlib.Path,
    quantiles: Sequence[float],
    of: Of,
    *,
    places: pathlib.Path | None = None,
    client: Any = None,
) -> None:
    """Predictions at the rows of a table or the points of a grid, which need not fit into memory; by the workers of `client`."""
    check_outputs({"model": model, "table": table, "places": places}, tables={"predictions": output})
    gp = load_estimator(model)
    if is_dask_client(client) and places is None:
        asked = open_lazily(table, num_pieces=num_workers(client))
        lazy = gp.predict(asked, quantiles=quantiles, of=of)
        with tasks_shown("auto"), contextlib.closing(computed_in_order(lazy, client)) as pieces:
            write_pieces(pieces, output)
        return
    tables = (
        tables_to_answer(table, output)
        if places is None
        else (rows_to_answer(gp, table, places, "rows are arranged first"),)
    )
    with tasks_on(client), tasks_shown("auto"):
        write_pieces(predicted_pieces(gp, tables, quantiles, of), output)


def predicted_pieces(gp: SpaceTimeGP, tables: Iterable[Any], quantiles: Sequence[float], of: Of) -> Iterator[Any]:
    """Predictions of tables one after another, piece by piece."""
    for asked in tables:
        yield from gp.predict_pieces(asked, quantiles=quantiles, of=of)


def load_target(model: pathlib.Path, target: str | None) -> SpaceTimeGP:
    """The estimator in a file; of several targets the one that is asked about."""
    gp = load_estimator(model)
    return gp if target is None else gp.only(target)


def sample_file(
    model: pathlib.Path,
    table: pathlib.Path,
    output: pathlib.Path,
    *,
    num: int,
    seed: int,
    of: Of,
    client: Any = None,
) -> None:
    """Joint draws at the rows of a table or the points of a grid."""
    check_outputs({"model": model, "table": table}, tables={"draws": output})
    gp = load_estimator(model)
    with tasks_on(client), tasks_shown("auto"):
        if is_of_parts(table):
            write_pieces(_drawn_files(gp, PartsAlike(table), num=num, seed=seed, of=of), output)
        else:
            write_table(gp.sample(read_table(table), num=num, seed=seed, of=of), output)


def _drawn_files(gp: SpaceTimeGP, files: PartsAlike, **options: Any) -> Iterator[Any]:
    """Draws over the rows of all files together, file by file; all other columns are read when their turn comes."""
    why = f"draws are joint over all rows ({options['num']} numbers of each are held)"
    asked = rows_of_files(files, places_of(gp), why)
    drawn = gp.sample(asked, **options)
    names = [name for name in drawn.columns if name not in asked.columns]
    first = 0
    for part in files.parts:
        piece = files.read(part)
        rows = slice(first, first + len(piece))
        piece = piece.assign(**{name: drawn[name].to_numpy()[rows] for name in names})
        piece.attrs.update(drawn.attrs)
        first = rows.stop
        yield piece


def fill_file(
    model: pathlib.Path,
    table: pathlib.Path,
    output: pathlib.Path,
    of: Of,
    *,
    places: pathlib.Path | None = None,
    client: Any = None,
) -> int:
    """The table with the target's gaps filled, which need not fit into memory; how many there were. By the workers of `client`."""
    check_outputs({"model": model, "table": table, "places": places}, tables={"complete table": output})
    gp = load_estimator(model)
    flags = [f"{name}_filled" for name in gp.target] if len(gp.each_target()) > 1 else ["filled"]
    files = files_to_ask(gp, table, places)
    num_filled = 0

    def counted(pieces: Iterable[Any]) -> Iterator[Any]:
        nonlocal num_filled
        for piece in pieces:
            num_filled += sum(int(piece[flag].sum()) for flag in flags)
            yield piece

    lazy = None
    if is_dask_client(client) and places is None and (files is not None or not is_of_parts(table)):
        lazy = open_lazily(table, num_pieces=num_workers(client))
    with tasks_on(client), tasks_shown("auto"):
        if lazy is not None and (files is not None or has_rows(gp, lazy)):
            with contextlib.closing(computed_in_order(gp.fill(lazy, of=of), client)) as pieces:
                write_pieces(counted(pieces), output)
        elif files is not None:
            with unseen_said_once():
                write_pieces(counted(gp.fill(asked, of=of) for asked in tables_to_answer(table, output)), output)
        else:
            (filled,) = counted([gp.fill(rows_for(gp, table, places, "rows are arranged first"), of=of)])
            write_table(filled, output)
    return num_filled


def forecast_file(
    model: pathlib.Path,
    horizon: str,
    output: pathlib.Path,
    *,
    at: pathlib.Path | None,
    quantiles: Sequence[float],
    of: Of,
) -> None:
    """Predictions beyond the last time, at the stations or at the places of a table or a grid."""
    check_outputs({"model": model, "places": at}, tables={"forecast": output})
    gp = load_estimator(model)
    places = None if at is None else read_table(at)
    write_table(gp.forecast(horizon, places, quantiles, of=of), output)


def grid_file(
    model: pathlib.Path,
    step: str,
    output: pathlib.Path,
    *,
    times: Sequence[str] | None,
    terrain: pathlib.Path | None,
    land_only: bool,
) -> dict[str, int]:
    """A grid over the places of a model; how many points it has along each dimension."""
    check_outputs({"model": model, "terrain": terrain}, tables={"grid": output})
    gp = load_estimator(model)
    heights = None if terrain is None else read_table(terrain)
    chosen: Sequence[Any] | None = times
    if chosen is not None and gp.translation_.clock.kind == "number":
        chosen = [float(time) for time in chosen]
    grid = gp.grid(step, chosen, heights, land_only=land_only)
    write_table(grid, output)
    return {str(name): size for name, size in grid.sizes.items()}


def aggregate_file(
    model: pathlib.Path,
    table: pathlib.Path,
    output: pathlib.Path,
    *,
    by: Sequence[str],
    places: pathlib.Path | None = None,
    target: str | None = None,
    **options: Any,
) -> int:
    """Means or sums over groups of the rows of a table or the points of a grid; how many groups there were."""
    inputs = {"model": model, "table": table, "places": places, "polygons": options.get("polygons")}
    check_outputs(inputs, tables={"groups": output})
    gp = load_target(model, target)
    gp.require_one_target()
    weights = options.get("weights")
    columns = (*places_of(gp), *by, *(() if weights is None else (weights,)))
    rows = rows_to_answer(gp, table, places, "the uncertainty of a group is joint over its rows", columns)
    groups = gp.aggregate(rows, by, **options)
    write_table(groups, output)
    return len(groups)


def point_file(
    model: pathlib.Path, place: Mapping[str, Any], output: pathlib.Path, *, quantiles: Sequence[float], of: Of
) -> None:
    """The series at one place, as long as what the model has seen."""
    check_outputs({"model": model}, tables={"series": output})
    write_table(load_estimator(model).point(place, quantiles=quantiles, of=of), output)


def audit_file(
    model: pathlib.Path,
    table: pathlib.Path,
    output: pathlib.Path,
    *,
    rate: float,
    places: pathlib.Path | None = None,
    target: str | None = None,
    client: Any = None,
) -> dict[str, int]:
    """The suspicious rows of a table; how many there are of each cause."""
    check_outputs({"model": model, "table": table, "places": places}, tables={"suspicious rows": output})
    gp = load_target(model, target)
    gp.require_one_target()
    rows = rows_for(gp, table, places, "an audit holds rows against each other", columns_of(gp))
    with tasks_on(client), tasks_shown("auto"):
        found = gp.audit(rows, rate=rate)
    write_table(found.reset_index(drop=True), output)
    return {str(cause): int(count) for cause, count in found["cause"].value_counts().items()}


def suggest_file(
    model: pathlib.Path,
    candidates: pathlib.Path,
    output: pathlib.Path,
    *,
    num: int,
    time: str | None,
    target: str | None = None,
) -> None:
    """Places for new stations, among those of a table or a grid."""
    check_outputs({"model": model, "candidates": candidates}, tables={"places": output})
    gp = load_target(model, target)
    when: Any = float(time) if time is not None and gp.translation_.clock.kind == "number" else time
    write_table(gp.suggest(read_table(candidates), num, time=when), output)


class Update(NamedTuple):
    """How many rows were taken in, how many of them at a time and place already known, and how many there are now."""

    num_added: int
    num_repeated: int
    num_rows: int


def update_file(
    model: pathlib.Path, table: pathlib.Path, output: pathlib.Path, *, places: pathlib.Path | None = None
) -> Update:
    """A model that has seen the table's rows too."""
    check_outputs({"model": model, "table": table, "places": places}, files={"new model": output})
    gp = load_estimator(model)
    # Of several targets the rows are the same, and counted once.
    before = gp.each_target()[0].fitted_
    files, num_repeated = files_to_ask(gp, table, places), 0
    if files is not None and before.posterior.rows_are_on_disk:
        gp.update_pieces(files.read(part) for part in files.parts)
    else:
        rows = rows_for(gp, table, places, "a model keeps its rows", columns_of(gp))
        num_repeated = before.num_repeated(before.read(rows))
        gp.update(rows)
    gp.save(output)
    num_rows = gp.each_target()[0].num_rows_
    return Update(num_rows - before.num_rows, num_repeated, num_rows)


def report_file(
    model: pathlib.Path,
    output: pathlib.Path,
    *,
    table: pathlib.Path | None = None,
    held_out: pathlib.Path | None = None,
    terrain: pathlib.Path | None = None,
    places: pathlib.Path | None = None,
    target: str | None = None,
    **options: Any,
) -> ReportContent:
    """The report of a model; what it says is returned. `options` go to `build_report`."""
    inputs = {"model": model, "table": table, "table held out": held_out, "terrain": terrain, "places": places}
    check_outputs(inputs, files={"report": output})
    check_threshold(options.get("threshold"))
    gp = load_target(model, target)
    why = "a report draws from all rows"
    seen, unseen = (None if file is None else rows_for(gp, file, places, why) for file in (table, held_out))
    heights = None if terrain is None else read_table(terrain)
    return build_report(gp, seen, path=output, held_out=unseen, terrain=heights, **options)
