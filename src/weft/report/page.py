# SPDX-License-Identifier: MIT
"""How a report looks: one HTML page with everything inside it."""

import dataclasses
import importlib.resources
import json
from typing import Any

from weft.report.content import MapContent, ReportContent, SeriesContent, Strip

__all__ = ["as_script_json", "render", "strip_paths"]

# Shades of the availability strip, from some to all.
_SHADES = 4


def render(content: ReportContent) -> str:
    """The page; whatever comes from data is escaped, in text by the template and in scripts by `as_script_json`."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("weft.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = lambda share: f"{100 * share:.1f}"
    # The template marks as safe what escapes its own text (pictures, JSON) and this package's files, nothing else.
    return environment.get_template("report.html.jinja").render(
        content=content,
        strip_paths=strip_paths(content.data.strip),
        live=as_script_json(_live(content)),
        uplot_css=_asset("uplot.min.css"),
        uplot_js=_asset("uplot.min.js"),
        uplot_licence=_asset("uplot.LICENSE.txt"),
        report_css=_asset("report.css"),
        report_js=_asset("report.js"),
    )


def as_script_json(data: Any) -> str:
    """JSON that cannot end the script element it stands in, nor begin a comment or another element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def strip_paths(strip: Strip) -> list[str]:
    """For each shade, from some to all, the runs of cells that have it: a path of horizontal strokes."""
    parts: list[list[str]] = [[] for _ in range(_SHADES)]
    for row, line in enumerate(strip.shares):
        start = 0
        shades = [_shade(share) for share in line]
        for column in range(1, len(shades) + 1):
            if column == len(shades) or shades[column] != shades[start]:
                if shades[start] >= 0:
                    parts[shades[start]].append(f"M{start} {row + 0.5:g}h{column - start}")
                start = column
    return ["".join(each) for each in parts]


def _shade(share: float) -> int:
    """-1 for nothing at all, then four shades."""
    return -1 if share <= 0 else min(int(share * _SHADES), _SHADES - 1)


def _live(content: ReportContent) -> dict[str, Any]:
    """What the two live pictures need."""
    parts: dict[str, MapContent | SeriesContent | None] = {"map": content.map, "series": content.series}
    live: dict[str, Any] = {name: None if part is None else dataclasses.asdict(part) for name, part in parts.items()}
    return {"target": content.target, "units": content.units, **live}


def _asset(name: str) -> str:
    return importlib.resources.files("weft.report").joinpath("assets", name).read_text(encoding="utf-8")
