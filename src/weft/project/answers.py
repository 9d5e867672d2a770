# SPDX-License-Identifier: MIT
"""A model's answers from file to file. Whatever can be refused is, before the long work; outputs are whole or absent."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from weft.data.files import read_table, tables_to_answer, write_pieces, write_table
from weft.data.outputs import check_outputs
from weft.data.parts import is_of_parts
from weft.distributed import tasks_on
from weft.distributed.clients import is_dask_client, num_workers
from weft.distributed.files import computed_in_order, open_lazily
from weft.estimator.evaluation import joined, row_scores, summaries_of
from weft.inference.watching import tasks_shown
from weft.loading import load_estimator
from weft.options import Of
from weft.project.surveys import arranged
from weft.report import ReportContent, build_report
from weft.report.build import check_threshold
from weft.scores import ScoresOfParts
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
    places: pathlib.Path | None = None,
    client: Any = None,
) -> None:
    """Predictions at the rows of a table or the points of a grid, which need not fit into memory; by the workers of `client`."""
    check_outputs({"model": model, "table": table, "places": places}, tables={"predictions": output})
    gp = load_estimator(model)
    if is_dask_client(client) and places is None:
        asked = open_lazily(table, num_pieces=num_workers(client))
        with tasks_shown("auto"):
            write_pieces(computed_in_order(gp.predict(asked, quantiles=quantiles, of=of), client), output)
        return
    tables = tables_to_answer(table, output) if places is None else (rows_to_answer(gp, table, places),)
    with tasks_on(client), tasks_shown("auto"):
        write_pieces(predicted_pieces(gp, tables, quantiles, of), output)


def predicted_pieces(gp: SpaceTimeGP, tables: Iterable[Any], quantiles: Sequence[float], of: Of) -> Iterator[Any]:
    """Predictions of tables one after another, piece by piece."""
    for asked in tables:
        yield from gp.predict_pieces(asked, quantiles=quantiles, of=of)


def rows_for(gp: SpaceTimeGP, path: pathlib.Path, places: pathlib.Path | None) -> Any:
    """A table with a row a measurement, as the model's was, whichever way its owner keeps it."""
    data = read_table(path)
    views = gp.each_target()
    roles = views[0].roles_
    targets = tuple(view.roles_.target for view in views)
    needed = {*targets, *roles.space}
    if places is None and needed <= set(getattr(data, "columns", needed)):
        return data
    known = {"time": roles.time, "space": roles.space, "target": targets if len(targets) > 1 else targets[0]}
    return arranged(data, None if places is None else read_table(places), known).table


def tables_with_values(
    gp: SpaceTimeGP, path: pathlib.Path, output: pathlib.Path | None, places: pathlib.Path | None
) -> Iterable[Any]:
    """The same where answers are row by row: many files one by one, unless their rows have to be arranged, which takes all of them."""
    views = gp.each_target()
    needed = {*(view.roles_.target for view in views), *views[0].roles_.space}
    if places is None and is_of_parts(path):
        tables = tables_to_answer(path, "rows.parquet" if output is None else output)
        if needed <= set(next(iter(tables)).columns):
            return tables
    return (rows_for(gp, path, places),)


def rows_to_answer(gp: SpaceTimeGP, path: pathlib.Path, places: pathlib.Path | None) -> Any:
    """The same of a table that need have no values; a grid as it is."""
    data = read_table(path)
    if places is None:
        return data
    roles = gp.each_target()[0].roles_
    return arranged(data, read_table(places), {"time": roles.time, "space": roles.space}).table


def load_target(model: pathlib.Path, target: str | None) -> SpaceTimeGP:
    """The estimator in a file; of several targets the one that is asked about."""
    gp = load_estimator(model)
    return gp if target is None else gp.only(target)


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
    flags = [f"{name}_filled" for name in gp.target] if len(gp.each_target()) > 1 else ["filled"]
    num_filled = 0

    def filled() -> Iterator[Any]:
        nonlocal num_filled
        for rows in tables_with_values(gp, table, output, places):
            piece = gp.fill(rows, of=of)
            num_filled += sum(int(piece[flag].sum()) for flag in flags)
            yield piece

    if is_of_parts(table):
        write_pieces(filled(), output)
    else:
        write_table(next(filled()), output)
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
    groups = gp.aggregate(rows_to_answer(gp, table, places), by, **options)
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
) -> dict[str, int]:
    """The suspicious rows of a table; how many there are of each cause."""
    check_outputs({"model": model, "table": table, "places": places}, tables={"suspicious rows": output})
    gp = load_target(model, target)
    found = gp.audit(rows_for(gp, table, places), rate=rate)
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
    before, rows = gp.each_target()[0].fitted_, rows_for(gp, table, places)
    gp.update(rows)
    gp.save(output)
    num_rows = gp.each_target()[0].num_rows_
    return Update(num_rows - before.num_rows, before.num_repeated(before.read(rows)), num_rows)


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
    if rows is None and is_of_parts(table):
        return _scores_of_parts(gp, tables_with_values(gp, table, None, places))
    asked = rows_for(gp, table, places)
    views = gp.each_target()
    scored = [view.score_rows(asked) for view in views]
    if rows is not None:
        named = zip(views, scored, strict=True)
        several = [each.assign(target=view.roles_.target) for view, each in named] if len(views) > 1 else scored
        write_table(joined(several), rows)
    return _by_target(views, [summaries_of(each, view.target_sd_) for view, each in zip(views, scored, strict=True)])


def _scores_of_parts(gp: SpaceTimeGP, tables: Iterable[Any]) -> dict[str, dict[str, float | int]]:
    """Those of tables one after another, of which only what adds up is kept."""
    views = gp.each_target()
    found: list[dict[str, ScoresOfParts]] = [{} for _ in views]
    for table in tables:
        for view, own in zip(views, found, strict=True):
            # A file need not have a value; all of them have to have one.
            if view.fitted_.read(table).num_missing == len(table):
                continue
            for model, part in view.score_rows(table).groupby("model", sort=False):
                own.setdefault(str(model), ScoresOfParts()).add(row_scores(part))
    for view, own in zip(views, found, strict=True):
        if not own:
            raise ValueError(f"no row has a value of {view.roles_.target!r}, so there is nothing to score")
        # What is there for some files only, as persistence is for those that come after all that was learned from, is of other rows.
        most = max(scores.num_rows for scores in own.values())
        for model in [model for model, scores in own.items() if scores.num_rows < most]:
            del own[model]
    return _by_target(
        views,
        [
            {model: scores.summary(view.target_sd_) for model, scores in own.items()}
            for view, own in zip(views, found, strict=True)
        ],
    )


def _by_target(
    views: Sequence[Any], summaries: Sequence[dict[str, dict[str, float | int]]]
) -> dict[str, dict[str, float | int]]:
    """Of one target as they are; of several each by its name."""
    if len(views) == 1:
        return summaries[0]
    return {
        f"{view.roles_.target} {model}": summary
        for view, own in zip(views, summaries, strict=True)
        for model, summary in own.items()
    }


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
    seen, unseen = (None if file is None else rows_for(gp, file, places) for file in (table, held_out))
    heights = None if terrain is None else read_table(terrain)
    return build_report(gp, seen, path=output, held_out=unseen, terrain=heights, **options)
