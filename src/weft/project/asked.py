# SPDX-License-Identifier: MIT
"""Tables that a model is asked about, whichever way their owner keeps them: a row a measurement or otherwise, one file or many."""

import logging
import pathlib
from collections.abc import Sequence
from typing import Any

from weft.data.files import read_table
from weft.data.parts import PartsAlike, is_of_parts, joined_parts
from weft.project.surveys import arranged
from weft.space_time_gp import SpaceTimeGP

__all__ = ["columns_of", "files_to_ask", "has_rows", "places_of", "rows_for", "rows_of_files", "rows_to_answer"]

logger = logging.getLogger("weft")


def columns_of(gp: SpaceTimeGP) -> tuple[str, ...]:
    """All columns that a model knows, its targets among them."""
    return tuple(dict.fromkeys(name for view in gp.each_target() for name in view.roles_.columns))


def places_of(gp: SpaceTimeGP) -> tuple[str, ...]:
    """Those of them that say when and where a row is, and what it brings, its values aside."""
    targets = {view.roles_.target for view in gp.each_target()}
    return tuple(name for name in columns_of(gp) if name not in targets)


def has_rows(gp: SpaceTimeGP, table: Any) -> bool:
    """Whether a table, or one with the columns of these files, has a row a measurement, as the model's had; a grid is as it is."""
    names = table.names if isinstance(table, PartsAlike) else getattr(table, "columns", None)
    views = gp.each_target()
    return names is None or {*(view.roles_.target for view in views), *views[0].roles_.space} <= set(names)


def files_to_ask(gp: SpaceTimeGP, path: pathlib.Path, places: pathlib.Path | None) -> PartsAlike | None:
    """The files of a table with values in many of them, to be asked about one by one; None where it is in one, or its rows have to be
    arranged, which takes all of them.
    """
    if places is not None or not is_of_parts(path):
        return None
    files = PartsAlike(path)
    return files if has_rows(gp, files) else None


def rows_of_files(files: PartsAlike, columns: Sequence[str] | None, why: str) -> Any:
    """All rows of many files, in these columns, for answers that belong to all of them together: `why` is said before."""
    logger.info(
        "%s, so %s rows of %s files are read into memory together%s",
        why,
        f"{files.num_rows:,}",
        f"{len(files.parts):,}",
        "" if columns is None else ", in the columns that the model needs",
    )
    return joined_parts([files.read(part, columns) for part in files.parts])


def rows_for(
    gp: SpaceTimeGP,
    path: pathlib.Path,
    places: pathlib.Path | None,
    why: str,
    columns: Sequence[str] | None = None,
) -> Any:
    """A table with a row a measurement, as the model's was, whichever way its owner keeps it."""
    files = files_to_ask(gp, path, places)
    if files is not None:
        return rows_of_files(files, columns, why)
    data = read_table(path)
    if places is None and has_rows(gp, data):
        return data
    views = gp.each_target()
    targets = tuple(view.roles_.target for view in views)
    roles = views[0].roles_
    known = {"time": roles.time, "space": roles.space, "target": targets if len(targets) > 1 else targets[0]}
    return arranged(data, None if places is None else read_table(places), known).table


def rows_to_answer(
    gp: SpaceTimeGP,
    path: pathlib.Path,
    places: pathlib.Path | None,
    why: str,
    columns: Sequence[str] | None = None,
) -> Any:
    """The same of a table that need have no values; a grid as it is."""
    if places is None:
        return rows_of_files(PartsAlike(path), columns, why) if is_of_parts(path) else read_table(path)
    roles = gp.each_target()[0].roles_
    return arranged(read_table(path), read_table(places), {"time": roles.time, "space": roles.space}).table
