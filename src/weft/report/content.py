# SPDX-License-Identifier: MIT
"""What a report says, as plain data: nothing here knows of HTML, and nothing that draws it knows of models.

Every field is text, a number or a list of those, so that the whole can be compared, stored as JSON and tested.
"""

import dataclasses
from typing import final

from weft.report.packing import Packed

__all__ = [
    "Check",
    "Component",
    "DataCard",
    "Fact",
    "Figure",
    "HeldOut",
    "Layer",
    "MapContent",
    "ParameterLine",
    "ReportContent",
    "Reproduce",
    "ScoreLine",
    "SeriesContent",
    "Station",
    "Strip",
    "Verdict",
]


@final
@dataclasses.dataclass(frozen=True)
class Fact:
    """One labelled value; `state` is "good", "caution", "poor" or "plain"."""

    label: str
    value: str
    note: str = ""
    state: str = "plain"


@final
@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether to trust the model: one sentence, the facts behind it, and what to worry about."""

    state: str
    headline: str
    facts: tuple[Fact, ...]
    worries: tuple[str, ...]


@final
@dataclasses.dataclass(frozen=True)
class Strip:
    """Who reported when: `shares` has a row for each place and a column for each stretch of time, from 0 to 1."""

    names: tuple[str, ...]
    num_rows: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]
    first: str
    middle: str
    last: str
    note: str


@final
@dataclasses.dataclass(frozen=True)
class DataCard:
    """What the model was fitted to."""

    facts: tuple[Fact, ...]
    strip: Strip


@final
@dataclasses.dataclass(frozen=True)
class Layer:
    """One quantity on the map: frames after each other, in each rows from north to south, columns from west to east.

    `palette` holds the colours of the codes 0 to 254, three bytes each, as base64.
    """

    key: str
    label: str
    units: str
    numbers: Packed
    palette: str


@final
@dataclasses.dataclass(frozen=True)
class MapContent:
    """Frames of a map over `box` (west, south, east, north), on a grid of `width` by `height` cells.

    Lines and points are in the box's coordinates. `markers` are places; the first of them, in order, are the stations of
    the report. `observed` holds the value of each marker at each frame, frame after frame.
    """

    box: tuple[float, float, float, float]
    stretch: float  # how much longer a unit upwards is than one across
    width: int
    height: int
    is_geographic: bool
    axes: tuple[str, str]
    times: tuple[str, ...]
    first_frame: int
    layers: tuple[Layer, ...]
    threshold: float | None
    coast: tuple[tuple[float, ...], ...]
    borders: tuple[tuple[float, ...], ...]
    states: tuple[tuple[float, ...], ...]
    km_across: float  # how wide the middle of the map is; 0 where its coordinates are no lengths
    markers: tuple[tuple[float, float], ...]
    observed: Packed
    pseudo_points: tuple[tuple[float, float], ...]
    notes: tuple[str, ...]


@final
@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Rows of one station that were hidden: when, what was measured, and the 90 % interval predicted without them."""

    times: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@final
@dataclasses.dataclass(frozen=True)
class Station:
    """One place and its series, with a number for each of the report's times.

    `values` are measurements; `mean` and the quantiles are what the model expects of one.
    """

    name: str
    where: str
    num_rows: int
    values: Packed
    mean: Packed
    q05: Packed
    q25: Packed
    q75: Packed
    q95: Packed
    held_out: HeldOut


@final
@dataclasses.dataclass(frozen=True)
class SeriesContent:
    """Series at stations; `times` are seconds since 1970 (UTC) where `has_dates`, else the column's own numbers."""

    stations: tuple[Station, ...]
    times: tuple[float, ...]
    has_dates: bool
    time_label: str
    notes: tuple[str, ...]


@final
@dataclasses.dataclass(frozen=True)
class Component:
    """A part of the model, its share of the variance at the rows seen, and its reach in words."""

    name: str
    share: float
    deviation: float
    units: str
    words: str


@final
@dataclasses.dataclass(frozen=True)
class ParameterLine:
    """A learned number in units people use; `path` is its name in the model."""

    part: str
    meaning: str
    value: str
    unit: str
    path: str


@final
@dataclasses.dataclass(frozen=True)
class ScoreLine:
    """Scores of one model, as text; `is_best` marks those no other model of the table beats."""

    model: str
    scores: tuple[str, ...]
    is_best: tuple[bool, ...]
    is_ours: bool


@final
@dataclasses.dataclass(frozen=True)
class Figure:
    """A still picture: SVG whose every text is escaped, with words for those who cannot see it."""

    svg: str
    alt: str
    caption: str


@final
@dataclasses.dataclass(frozen=True)
class Check:
    """One way of hiding rows and predicting them, beside what anyone could predict without a model."""

    by: str
    title: str
    words: str
    columns: tuple[str, ...]
    lines: tuple[ScoreLine, ...]
    coverage: tuple[tuple[float, float], ...]  # levels of intervals, and the share of values inside
    skill: float  # 1 - CRPS / CRPS of the best baseline
    best_baseline: str
    figures: tuple[Figure, ...]

    @property
    def coverage_90(self) -> float:
        return dict(self.coverage)[0.9]


@final
@dataclasses.dataclass(frozen=True)
class Reproduce:
    """What it takes to make this report again; of each phase: its name, processor and clock time, memory."""

    command: str
    config: str
    facts: tuple[Fact, ...]
    phases: tuple[tuple[str, str, str, str], ...]


@final
@dataclasses.dataclass(frozen=True)
class Remarks:
    """Sentences of one kind."""

    title: str
    lines: tuple[str, ...]


@final
@dataclasses.dataclass(frozen=True)
class ReportContent:
    """A whole report."""

    title: str
    subtitle: str
    target: str
    units: str
    verdict: Verdict
    data: DataCard
    map: MapContent | None
    series: SeriesContent
    components: tuple[Component, ...]
    component_note: str
    component_remarks: tuple[Remarks, ...]
    component_figures: tuple[Figure, ...]
    parameters: tuple[ParameterLine, ...]
    checks: tuple[Check, ...]
    check_note: str
    diagnostics: tuple[Figure, ...]
    diagnostics_words: tuple[str, ...]
    reproduce: Reproduce
