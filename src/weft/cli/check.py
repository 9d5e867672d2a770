# SPDX-License-Identifier: MIT
"""`weft check`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from weft.cli.options import AsJson, Places, Scheduler, Workers
from weft.cli.printing import emit

__all__ = ["check"]


def check(
    target: Annotated[pathlib.Path, Parameter(help="A weft.toml, or a table.")] = pathlib.Path("weft.toml"),
    *,
    places: Places = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    json: AsJson = False,
) -> None:
    """Read a config's table and say what is in it, what is odd, and what a fit will take. Fits nothing."""
    import msgspec

    from weft.data.parts import is_of_parts
    from weft.distributed import cluster, tasks_on
    from weft.project import Settings, read_settings, survey_file

    is_config = target.suffix in (".toml", "") and not is_of_parts(target)
    settings = read_settings(target) if is_config else Settings(table=str(target))
    if places is not None:
        settings = msgspec.structs.replace(settings, places=str(places))
    with cluster(workers, scheduler) as client, tasks_on(client):
        found = survey_file(settings, advised=not is_config)
        cost = found.cost()
    emit(found.to_json() | cost._asdict(), found.text(cost.lines()), as_json=json)
