# SPDX-License-Identifier: MIT
"""The report in a real browser: what it draws are the model's numbers, by mouse and by keyboard, without an error."""

import base64
import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from weft.report.packing import unpack
from weft.report.page import render

from . import browser as chromium
from .conftest import EVIL, Written

TARGET = "t<max>&"
# Where the last run's picture stays, for people to look at.
KEPT = pathlib.Path(__file__).resolve().parents[2] / "build" / "report.png"


@pytest.fixture(scope="module")
def browser(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    if chromium.programs() is None:
        pytest.skip(chromium.MISSING)
    with chromium.headless(tmp_path_factory.mktemp("browser")) as window:
        window.resize(1150, 900)
        window.open(written.path)
        yield window
        assert [message for message in window.console() if message["level"] != "INFO"] == []


@pytest.mark.slow
def test_slider_and_stations_show_the_models_numbers(written: Written, browser: chromium.Browser) -> None:
    content, series = written.content.map, written.content.series
    assert content is not None
    cells = content.width * content.height
    assert browser.run("return weft.state.frame") == content.first_frame

    # The slider, by keys.
    browser.type("#frame", "ArrowRight", "ArrowRight")
    frame = content.first_frame + 2
    assert browser.run("return [weft.state.frame, weft.state.time]") == [frame, content.times[frame]]
    assert browser.run("return document.getElementById('map-time').textContent") == content.times[frame]
    mean = content.layers[0].numbers
    assert_allclose(
        browser.run("return weft.mapValues()"), unpack(mean)[frame * cells : (frame + 1) * cells], rtol=1e-9
    )
    observed = np.array(browser.run("return weft.observed()"), dtype=float)
    expected = written.table.pivot_table(index="day", columns="name", values=TARGET).loc[
        pd.Timestamp(content.times[frame])
    ]
    names = [station.name for station in series.stations]
    assert_allclose(observed[: len(names)], expected.reindex(names), atol=content.observed.step)

    # What is on the canvas, in colours that run over all times: those of the middle of a cell, away from lines and markers.
    assert browser.run("return document.getElementById('stretch').checked")
    browser.run("document.getElementById('stretch').click()")
    middles = [
        ((column + 0.5) / content.width, (row + 0.5) / content.height)
        for row in range(content.height)
        for column in range(content.width)
    ]
    script = """
        const canvas = document.getElementById('canvas'), {width, height} = canvas;
        const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
        return arguments[0].map(([u, v]) => {
            const first = 4 * (Math.floor(v * height) * width + Math.floor(u * width));
            return Array.from(pixels.slice(first, first + 3));
        });
    """
    palette = np.frombuffer(base64.b64decode(content.layers[0].palette), dtype=np.uint8).reshape(-1, 3)
    codes = np.rint((unpack(mean) - mean.low) / mean.step).astype(int)[frame * cells : (frame + 1) * cells]
    difference = np.abs(palette[codes].astype(int) - np.array(browser.run(script, middles))).max(axis=1)
    # Coast, markers and crosses lie over some cells.
    assert np.mean(difference <= 12) > 0.6

    # Another layer, by mouse.
    browser.click(".layers label:nth-of-type(2)")
    deviation = content.layers[1].numbers
    assert_allclose(
        browser.run("return weft.mapValues()"), unpack(deviation)[frame * cells : (frame + 1) * cells], rtol=1e-9
    )
    assert "Standard deviation" in browser.run("return document.getElementById('canvas').getAttribute('aria-label')")

    # A station, by mouse: the first one that no other marker covers.
    free = browser.run("""
        return [...document.querySelectorAll('#markers button')].findIndex((button, k) => {
            button.scrollIntoView({block: 'center', behavior: 'instant'});
            const box = button.getBoundingClientRect();
            return k > 0 && document.elementFromPoint(box.left + 13, box.top + 13) === button;
        });
    """)
    assert free > 0
    browser.click(f"#markers button:nth-of-type({free + 1})")
    check_series(written, browser, free)

    # And by keyboard: arrows move to the next station in their direction, Enter chooses.
    place = content.markers
    right = {k for k in range(len(names)) if place[k][0] > place[free][0]}
    browser.type(f"#markers button:nth-of-type({free + 1})", "ArrowRight" if right else "ArrowLeft")
    focused = browser.run("return [...document.querySelectorAll('#markers button')].indexOf(document.activeElement)")
    assert focused in (right or set(range(len(names))) - {free})
    browser.type(f"#markers button:nth-of-type({focused + 1})", "Enter")
    check_series(written, browser, focused)

    # Names from the data are text, and no script of theirs ran.
    evil = names.index(EVIL[0])
    browser.run(
        "const s = document.getElementById('station'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))",
        str(evil),
    )
    check_series(written, browser, evil)
    assert EVIL[0] in browser.run("return document.getElementById('series').getAttribute('aria-label')")
    assert browser.run("return document.querySelectorAll('img').length") == 0

    KEPT.parent.mkdir(exist_ok=True)
    browser.screenshot(KEPT)
    assert KEPT.stat().st_size > 50_000


def check_series(written: Written, browser: chromium.Browser, number: int, *, has_map: bool = True) -> None:
    station = written.content.series.stations[number]
    assert browser.run("return weft.state.station") == station.name
    drawn = browser.run("return weft.series()")
    place = written.table[written.table["name"] == station.name].iloc[0]
    times = pd.to_datetime(np.array(drawn["times"]), unit="s")
    asked = pd.DataFrame({"day": times, **{name: place[name] for name in written.gp.space}})
    expected = written.gp.predict(asked, quantiles=(0.05, 0.25, 0.75, 0.95))
    for name, column in (("mean", "mean"), ("q05", "q0.05"), ("q25", "q0.25"), ("q75", "q0.75"), ("q95", "q0.95")):
        # Half a step of what the page packs numbers with.
        assert_allclose(drawn[name], expected[column], atol=getattr(station, name).step * 0.51, rtol=0)
    own = written.table[written.table["name"] == station.name].set_index("day")[TARGET].reindex(times)
    assert_allclose(np.array(drawn["values"], dtype=float), own, atol=station.values.step * 0.51, rtol=0)
    pressed = browser.run(
        "return [...document.querySelectorAll('#markers button[aria-pressed=true]')].map(b => b.title)"
    )
    assert pressed == ([station.name] if has_map else [])


@pytest.mark.slow
def test_narrow_dark_and_printed_pages_work(browser: chromium.Browser) -> None:
    browser.resize(390, 800)
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    light = browser.run("return getComputedStyle(document.body).backgroundColor")
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert light == "rgb(255, 255, 255)"
    assert dark != light
    printed = browser.command("Page.printToPDF", preferCSSPageSize=True)
    assert len(printed["data"]) > 40_000
    # The page is dark again afterwards.
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == dark
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.resize(1150, 900)


@pytest.mark.slow
def test_a_page_without_a_map_or_hidden_rows_works(
    written: Written, browser: chromium.Browser, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "no map.html"
    path.write_text(render(dataclasses.replace(written.content, map=None, checks=())), encoding="utf-8")
    browser.open(path)
    check_series(written, browser, 0, has_map=False)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1300, 390])
def test_a_long_name_does_not_widen_the_page(
    width: int, written: Written, browser: chromium.Browser, tmp_path: pathlib.Path
) -> None:
    series = written.content.series
    stations = (dataclasses.replace(series.stations[0], name="n" * 180), *series.stations[1:])
    content = dataclasses.replace(written.content, series=dataclasses.replace(series, stations=stations))
    path = tmp_path / "long name.html"
    path.write_text(render(content), encoding="utf-8")
    browser.resize(width, 900)
    browser.open(path)
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.resize(1150, 900)
