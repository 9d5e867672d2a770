# SPDX-License-Identifier: MIT
"""The page as a file: small, whole, well-formed, on its own, and with nothing from the data left unescaped."""

import dataclasses
import html.parser
import json
import pathlib
import re
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from weft.report.build import build_report
from weft.report.content import Strip
from weft.report.figures import correlation_figure
from weft.report.page import as_script_json, render, strip_paths

from .conftest import EVIL, SIZE, Written

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Reader(html.parser.HTMLParser):
    """Elements with their attributes and text; an element closed out of turn is an error."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def page(written: Written) -> str:
    return written.path.read_text(encoding="utf-8")


def test_the_page_is_well_formed_with_distinct_names(page: str) -> None:
    reader = read(page)
    names = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(names) == len(set(names))
    targets = [str(a["href"])[1:] for _, a in reader.elements if str(a.get("href", "")).startswith("#")]
    assert targets
    assert set(targets) <= set(names)


def test_nothing_is_fetched(page: str) -> None:
    for tag, attributes in read(page).elements:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            address = attributes.get(name)
            assert address is None or address.startswith(("#", "data:")), f"<{tag} {name}={address!r}>"
    assert not re.search(r"@import|url\(\s*['\"]?(?!#|data:)[a-z/]", page)
    assert "fetch(" not in page
    assert "XMLHttpRequest" not in page


def test_pictures_have_words(page: str) -> None:
    pictures = [a for tag, a in read(page).elements if tag in ("img", "canvas") or a.get("role") == "img"]
    assert len(pictures) > 10
    assert all(str(a.get("aria-label") or a.get("alt") or "").strip() for a in pictures)


def test_names_from_data_are_text_and_nothing_else(written: Written, page: str) -> None:
    for name in EVIL[:2]:
        assert name not in page
    reader = read(page)
    scripts = [attributes for tag, attributes in reader.elements if tag == "script"]
    assert len(scripts) == 3
    assert not [a for tag, a in reader.elements if tag == "img"]
    assert not [a for _, a in reader.elements if any(name.startswith("on") for name in a)]
    shown = [station.name for station in written.content.series.stations]
    assert [text for text in reader.texts["option"] if text.strip()] == shown
    assert set(EVIL) <= set(shown)


def test_what_scripts_read_is_what_the_content_says(written: Written, page: str) -> None:
    (text,) = re.findall(r'<script type="application/json" id="live">(.*?)</script>', page, flags=re.DOTALL)
    assert not set("<>&") & set(text)
    live = json.loads(text)
    assert live["map"] == json.loads(json.dumps(dataclasses.asdict(written.content.map)))
    assert live["series"] == json.loads(json.dumps(dataclasses.asdict(written.content.series)))
    assert live["target"] == "t<max>&"


@pytest.mark.parametrize("evil", ["</script>", "<!--", "]]>", "&lt;", "\u2028", 'a"b\\c'])
def test_json_for_scripts_cannot_leave_them(evil: str) -> None:
    text = as_script_json({evil: [evil, 1.5, None]})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {evil: [evil, 1.5, None]}


def test_text_from_data_in_a_picture_is_escaped_and_not_mathematics() -> None:
    lags = np.linspace(0, 1, 5)
    before = dict(mpl.rcParams)
    figure = correlation_figure("k", lags, {EVIL[0]: 1 - lags, "$\\frac{": 1 - lags / 2}, "</svg><script>", "lag")
    assert dict(mpl.rcParams) == before
    assert "<script" not in figure.svg
    assert "<img" not in figure.svg
    assert "&lt;img src=x onerror=alert(1)&gt;" in figure.svg
    assert "$\\frac{" in figure.svg
    assert "http" not in figure.svg
    read(figure.svg)


def test_a_report_at_its_largest_stays_below_three_megabytes(written: Written) -> None:
    from weft.report.packing import pack
    from weft.report.size import ReportSize

    size, content = ReportSize(), written.content
    assert content.map is not None
    rng = np.random.default_rng(0)
    layers = tuple(
        dataclasses.replace(layer, numbers=pack(rng.random(size.map_points), bits=8)) for layer in content.map.layers
    )
    observed = pack(rng.random(size.max_frames * size.max_markers), bits=16)
    coast = tuple(tuple(np.round(rng.random(4000) * 300, 3).tolist()) for _ in range(8))
    markers = ((-123.45678, 45.67891),) * size.max_markers
    full_map = dataclasses.replace(content.map, layers=layers, observed=observed, coast=coast, markers=markers)
    curve = pack(rng.random(size.series_points // size.max_stations), bits=16)
    hidden = tuple(rng.random(size.max_held_out // size.max_stations).round(5).tolist())
    curves = dict.fromkeys(("values", "mean", "q05", "q25", "q75", "q95"), curve)
    station = dataclasses.replace(
        content.series.stations[0],
        **curves,
        held_out=dataclasses.replace(
            content.series.stations[0].held_out, times=hidden, values=hidden, low=hidden, high=hidden
        ),
    )
    series = dataclasses.replace(
        content.series,
        stations=(station,) * size.max_stations,
        times=tuple(1.6e9 + 86400.0 * k for k in range(size.series_points // 12)),
    )
    shares = tuple(tuple(rng.random(size.strip_columns).round(3).tolist()) for _ in range(size.strip_rows))
    strip = Strip(("a station of some length",) * size.strip_rows, (7,) * size.strip_rows, shares, "a", "b", "c", "")
    largest = dataclasses.replace(
        content, map=full_map, series=series, data=dataclasses.replace(content.data, strip=strip)
    )
    assert len(render(largest).encode()) < 3_000_000
    assert written.path.stat().st_size < 500_000


def test_runs_of_equal_shades_become_one_stroke() -> None:
    strip = Strip(("a", "b"), (5, 2), ((0.0, 1.0, 1.0, 0.1), (0.6, 0.6, 0.3, 0.0)), "", "", "", "")
    assert strip_paths(strip) == ["M3 0.5h1", "M2 1.5h1", "M0 1.5h2", "M1 0.5h2"]


def test_a_report_that_cannot_be_written_leaves_what_was_there(written: Written, tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        build_report(written.gp, written.table, path=tmp_path / "nowhere" / "report.html", size=SIZE)
    target = tmp_path / "report.html"
    target.write_text("old")
    with pytest.raises(ValueError, match="checks are of 'random'"):
        build_report(written.gp, written.table, path=target, checks=("tea leaves",), size=SIZE)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_the_estimator_writes_the_same_report(
    written: Written, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "weft.report.build.gather", lambda *args, **options: asked.append((args, options)) or written.content
    )
    written.gp.report(tmp_path / "report.html", table=written.table, threshold=13.0)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == written.path.read_text(encoding="utf-8")
    ((args, options),) = asked
    assert args == (written.gp, written.table)
    assert options["threshold"] == 13.0


def test_contents_are_plain_data(written: Written) -> None:
    def plain(part: Any) -> bool:
        if isinstance(part, dict):
            return all(isinstance(key, str) and plain(value) for key, value in part.items())
        if isinstance(part, list | tuple):
            return all(plain(value) for value in part)
        return part is None or type(part) in (str, int, float, bool)

    assert plain(dataclasses.asdict(written.content))
