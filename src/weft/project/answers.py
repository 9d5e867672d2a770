# SPDX-License-Identifier: MIT
"""A model's answers from file to file. Whatever can be refused is, before the long work; outputs are whole or absent."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from weft.data.files import read_table, read_table_to_answer, write_pieces, write_table
from weft.data.outputs import check_outputs
from weft.distributed import tasks_on
from weft.distributed.clients import is_dask_client, num_workers
from weft.distributed.files import computed_in_order, open_lazily
from weft.estimator.evaluation import summaries_of
from weft.loading import load_estimator
from weft.options import Of
from weft.project.surveys import arranged
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
    "point_file",
    "predict_file",
    "report_file",
    "sample_file",
    "score_file",
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
    client: Any = None,
) -> None:
    """Predictions at the rows of a table or the points of a grid, which need not fit into memory; by the workers of `client`."""
    check_outputs({"model": model, "table": table}, tables={"predictions": output})
    gp = load_estimator(model)
    if is_dask_client(client):
        asked = open_lazily(table, num_pieces=num_workers(client))
        write_pieces(computed_in_order(gp.predict(asked, quantiles=quantiles, of=of), client), output)
        return
    asked = read_table_to_answer(table, output)
    with tasks_on(client):
        write_pieces(gp.predict_pieces(asked, quantiles=quantiles, of=of), output)


def rows_for(gp: SpaceTimeGP, path: pathlib.Path, places: pathlib.Path | None) -> Any:
    """A table with a row a measurement, as the model's was, whichever way its owner keeps it."""
    data = read_table(path)
    needed = {gp.roles_.target, *gp.roles_.space}
    if places is None and needed <= set(getattr(data, "columns", needed)):
        return data
    known = {"time": gp.roles_.time, "space": gp.roles_.space, "target": gp.roles_.target}
    return arranged(data, None if places is None else read_table(places), known).table


def sample_file(model: pathlib.Path, table: pathlib.Path, output: pathlib.Path, *, num: int, seed: int, of: Of) -> None:
    """Joint draws at the rows of a table or the points of a grid."""
    check_outputs({"model": model, "table": table}, tables={"draws": output})
    gp = load_estimator(model)
    write_table(gp.sample(read_table(table), num=num, seed=seed, of=of), output)


def fill_file(
    model: pathlib.Path, table: pathlib.Path, output: pathlib.Path, of: Of, *, places: pathlib.Path | None = None
) -> int:
    """The table with the target's gaps filled; how many there were."""
    check_outputs({"model": model, "table": table, "places": places}, tables={"complete table": output})
    gp = load_estimator(model)
    filled = gp.fill(rows_for(gp, table, places), of=of)
    write_table(filled, output)
    return int(filled["filled"].sum())


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
    model: pathlib.Path, table: pathlib.Path, output: pathlib.Path, *, by: Sequence[str], **options: Any
) -> int:
    """Means or sums over groups of the rows of a table or the points of a grid; how many groups there were."""
    check_outputs({"model": model, "table": table, "polygons": options.get("polygons")}, tables={"groups": output})
    gp = load_estimator(model)
    groups = gp.aggregate(read_table(table), by, **options)
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
) -> dict[str, int]:
    """The suspicious rows of a table; how many there are of each cause."""
    check_outputs({"model": model, "table": table, "places": places}, tables={"suspicious rows": output})
    gp = load_estimator(model)
    found = gp.audit(rows_for(gp, table, places), rate=rate)
    write_table(found.reset_index(drop=True), output)
    return {str(cause): int(count) for cause, count in found["cause"].value_counts().items()}


def suggest_file(
    model: pathlib.Path, candidates: pathlib.Path, output: pathlib.Path, *, num: int, time: str | None
) -> None:
    """Places for new stations, among those of a table or a grid."""
    check_outputs({"model": model, "candidates": candidates}, tables={"places": output})
    gp = load_estimator(model)
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
    before, rows = gp.fitted_, rows_for(gp, table, places)
    gp.update(rows)
    gp.save(output)
    return Update(gp.num_rows_ - before.num_rows, before.num_repeated(before.read(rows)), gp.num_rows_)


def score_file(
    model: pathlib.Path,
    table: pathlib.Path,
    rows: pathlib.Path | None = None,
    *,
    places: pathlib.Path | None = None,
) -> dict[str, dict[str, float | int]]:
    """Scores of a model and of baselines on a table's rows; those of every row go to the file `rows`."""
    check_outputs({"model": model, "table": table, "places": places}, tables={"scored rows": rows})
    gp = load_estimator(model)
    scored = gp.score_rows(rows_for(gp, table, places))
    if rows is not None:
        write_table(scored, rows)
    return summaries_of(scored, gp.target_sd_)


def report_file(
    model: pathlib.Path,
    output: pathlib.Path,
    *,
    table: pathlib.Path | None = None,
    held_out: pathlib.Path | None = None,
    terrain: pathlib.Path | None = None,
    **options: Any,
) -> ReportContent:
    """The report of a model; what it says is returned. `options` go to `build_report`."""
    inputs = {"model": model, "table": table, "table held out": held_out, "terrain": terrain}
    check_outputs(inputs, files={"report": output})
    check_threshold(options.get("threshold"))
    gp = load_estimator(model)
    seen, unseen, heights = (None if file is None else read_table(file) for file in (table, held_out, terrain))
    return build_report(gp, seen, path=output, held_out=unseen, terrain=heights, **options)
