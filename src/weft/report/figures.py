# SPDX-License-Identifier: MIT
"""Still pictures, drawn by matplotlib as SVG that takes its colours and its font from the page.

Lines are drawn in marker colours and these replaced by the page's variables, so that one picture suits light, dark and
paper. Text stays text: matplotlib escapes it, and no part of it is read as mathematics.
"""

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from weft.report.content import Figure
from weft.scores import PitSummary

__all__ = [
    "correlation_figure",
    "coverage_figure",
    "evidence_figure",
    "pit_figure",
    "residual_correlation_figure",
    "variogram_figure",
]

# Colours no palette has, and the variables of the page that stand for them.
INK, MUTED, GRID, ACCENT, SECOND, GOOD = "#010101", "#010102", "#010103", "#010104", "#010105", "#010106"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
    GOOD: "var(--good)",
}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "weft",
    "font.family": "sans-serif",
    "font.size": 9.0,
}


def pit_figure(key: str, pit: PitSummary) -> Figure:
    """A histogram of PIT values beside the height each bar would have."""
    figure, axes = _canvas(key)
    counts = np.asarray(pit.counts)
    share = counts / max(counts.sum(), 1) * len(counts)
    axes.bar(pit.edges[:-1], share, width=np.diff(pit.edges), align="edge", color=ACCENT, alpha=0.75, linewidth=0)
    axes.axhline(1.0, color=INK, linewidth=1, linestyle="--")
    axes.set(xlim=(0, 1), xlabel="where the value fell in its prediction (PIT)", ylabel="relative frequency")
    caption = f"PIT: {pit.words}. Flat is right; a hump means intervals too wide, a U too narrow, a slope a bias."
    alt = (
        f"Histogram of the PIT of hidden rows in {len(counts)} bars; relative heights from {share.min():.2f} to "
        f"{share.max():.2f} where 1 is right: {pit.words}."
    )
    return Figure(_svg(figure, key), alt, caption)


def coverage_figure(
    key: str, asked: Float[np.ndarray, " level"], reached: Float[np.ndarray, " level"], marked: Sequence[float]
) -> Figure:
    """How often intervals hold the value against how often they should."""
    figure, axes = _canvas(key)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle="--")
    axes.plot(asked, reached, color=ACCENT, linewidth=1.8)
    at = [float(np.interp(level, asked, reached)) for level in marked]
    axes.plot(marked, at, "o", color=ACCENT, markersize=4)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="interval asked for", ylabel="share of values inside")
    said = ", ".join(f"{100 * level:.0f} % holds {100 * share:.0f} %" for level, share in zip(marked, at, strict=True))
    caption = "Coverage. On the dashed line intervals are honest; below it they are too narrow."
    return Figure(_svg(figure, key), f"Share of hidden values inside central intervals: {said}.", caption)


def correlation_figure(
    key: str,
    lags: Float[np.ndarray, " lag"],
    curves: dict[str, Float[np.ndarray, " lag"]],
    unit: str,
    what: str,
) -> Figure:
    """How far each component remembers."""
    figure, axes = _canvas(key)
    styles = [(ACCENT, "-"), (SECOND, "-"), (GOOD, "-"), (MUTED, "-"), (ACCENT, "--"), (SECOND, "--")]
    for (name, curve), (colour, dashes) in zip(curves.items(), styles * len(curves), strict=False):
        axes.plot(lags, curve, color=colour, linestyle=dashes, linewidth=1.8, label=name)
    axes.axhline(0.0, color=GRID, linewidth=0.8)
    axes.set(xlim=(0, float(lags[-1])), ylim=(min(0.0, *(float(c.min()) for c in curves.values())) - 0.02, 1.04))
    axes.set(xlabel=f"{what} ({unit})", ylabel="correlation")
    _legend(axes)
    reach = "; ".join(f"{name} falls below 0.5 at {_half(lags, curve)} {unit}" for name, curve in curves.items())
    return Figure(
        _svg(figure, key), f"Correlation against {what}: {reach}.", f"Correlation of each component against {what}."
    )


def variogram_figure(
    key: str,
    distance: Float[np.ndarray, " bin"],
    gamma: Float[np.ndarray, " bin"],
    unit: str,
) -> Figure:
    """Half the mean squared difference of residuals at one time, by distance, in their variance."""
    figure, axes = _canvas(key)
    axes.axhline(1.0, color=MUTED, linewidth=1, linestyle="--")
    axes.plot(distance, gamma, "o-", color=ACCENT, markersize=4, linewidth=1.4)
    axes.set(xlim=(0, None), ylim=(0, max(1.25, float(gamma.max(initial=0)) * 1.08)))
    axes.set(xlabel=f"distance ({unit})", ylabel="semivariance / variance")
    caption = "Residual variogram. Flat at 1: nothing left to map; rising from below 1: neighbours err together."
    said = ", ".join(f"{g:.2f} at {d:.3g} {unit}" for d, g in zip(distance[:3], gamma[:3], strict=True))
    return Figure(_svg(figure, key), f"Residual variogram against distance: {said or 'no pairs'}.", caption)


def residual_correlation_figure(
    key: str,
    lags: Float[np.ndarray, " lag"],
    correlation: Float[np.ndarray, " lag"],
    chance: Float[np.ndarray, " lag"],
    unit: str,
) -> Figure:
    """Correlation of residuals at one place, by lag, and what chance alone would give."""
    figure, axes = _canvas(key)
    axes.fill_between(lags, -chance, chance, color=MUTED, alpha=0.2, linewidth=0)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    axes.vlines(lags, 0, correlation, color=ACCENT, linewidth=1.6)
    axes.plot(lags, correlation, "o", color=ACCENT, markersize=4)
    size = max(0.3, 1.15 * float(np.max(np.abs(correlation), initial=0)))
    axes.set(ylim=(-size, size), xlabel=f"lag ({unit})", ylabel="correlation")
    caption = "Residual autocorrelation at each place. Inside the grey band it could be chance."
    said = ", ".join(f"{c:.2f} at {lag:.3g} {unit}" for lag, c in zip(lags[:3], correlation[:3], strict=True))
    return Figure(_svg(figure, key), f"Autocorrelation of residuals: {said or 'no pairs'}.", caption)


def regions_figure(
    key: str,
    across: Float[np.ndarray, " place"],
    up: Float[np.ndarray, " place"],
    region: Int[np.ndarray, " place"],
    names: tuple[str, str],
) -> Figure:
    """Places in the colour of their region, its number in its middle."""
    import matplotlib

    figure, axes = _canvas(key)
    colours = matplotlib.colormaps["tab10"](region % 10)
    axes.scatter(across, up, s=7, color=colours, linewidths=0)
    for number in np.unique(region):
        own = region == number
        axes.annotate(
            str(number), (across[own].mean(), up[own].mean()), ha="center", va="center", fontsize=7, color=INK
        )
    axes.set(xlabel=names[0], ylabel=names[1])
    count = len(np.unique(region))
    return Figure(
        _svg(figure, key),
        f"A map of the places in {count} regions.",
        "Regions: each answers for the places of its colour, and has seen those around them.",
    )


def evidence_figure(key: str, evaluations: Sequence[int], objective: Sequence[float]) -> Figure:
    """How far each step of the fit was from the best."""
    figure, axes = _canvas(key)
    below = np.maximum(max(objective) - np.asarray(objective), 0.0)
    axes.plot(evaluations, np.maximum(below, 1e-3), "o-", color=ACCENT, markersize=3, linewidth=1.4)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(xlabel="evaluations of the evidence", ylabel="nats below the best")
    caption = "Learning. A curve that ends steep was stopped early."
    alt = f"Log evidence below its best against evaluations: from {below[0]:.3g} nats to {below[-1]:.3g}."
    return Figure(_svg(figure, key), alt, caption)


def _canvas(key: str) -> tuple[Any, Any]:
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(4.3, 2.7), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0.0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelcolor=INK, labelsize=8.5)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _legend(axes: Any) -> None:
    legend = axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _svg(figure: Any, key: str) -> str:
    """The picture as an element for the inside of a page, with names of its own and the page's colours."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    for text in figure.findobj(matplotlib.text.Text):
        text.set_parse_math(False)
    written = io.StringIO()
    with matplotlib.rc_context(_SETTINGS):
        FigureCanvasSVG(figure).print_svg(
            written, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(xmlns:xlink|xmlns|version)="[^"]*"', "", svg)
    svg = svg.replace("xlink:href", "href")
    # Several pictures share a page, so every name gets the picture's.
    svg = re.sub(r'id="([^"]+)"', rf'id="{key}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{key}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{key}-\1)", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    # Sizes in points give way to the view box, so that the page decides.
    svg = re.sub(r'<svg\s[^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true" focusable="false">', svg, count=1)
    return "\n".join(line.strip() for line in svg.splitlines() if line.strip())


def _half(lags: Float[np.ndarray, " lag"], curve: Float[np.ndarray, " lag"]) -> str:
    below = np.flatnonzero(curve < 0.5)
    return f"{lags[below[0]]:.3g}" if len(below) else f"beyond {lags[-1]:.3g}"
