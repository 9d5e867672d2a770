# SPDX-License-Identifier: MIT
"""The documentation site: built without a warning, whole, complete, and working from the file system, search included."""

import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator

import pytest

import weft

from .report import browser as chromium

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
# What newcomers ask, and the page that answers it.
QUESTIONS = ("fill-gaps", "map-a-day", "forecast", "compare-two-periods", "find-bad-stations")
# A page of each kind, to be opened.
OPENED = (
    "index",
    "start",
    "how-to/map-a-day",
    "guide/command-line",
    "reference/estimator",
    "notebooks/first-look",
    "benchmarks",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    # Notebooks are run by `test_docs.py`, where much that they need is compiled already.
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1", "WEFT_RUN_NOTEBOOKS": "no"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Page(html.parser.HTMLParser):
    """Where a page leads to, what it loads, and the places in it that can be linked to."""

    def __init__(self, path: pathlib.Path):
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag in ("img", "script", "iframe") and "src" in given:
            self.loaded.add(given["src"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.loaded.add(given["href"])
        if "id" in given:
            self.anchors.add(given["id"])


def pages_of(site: pathlib.Path) -> dict[pathlib.Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def is_outside(link: str) -> bool:
    return urllib.parse.urlsplit(link).scheme != ""


def test_links_lead_somewhere_and_nothing_is_fetched(site: pathlib.Path) -> None:
    pages = pages_of(site)
    assert len(pages) > 30
    for path, page in pages.items():
        assert not [source for source in page.loaded if is_outside(source)], path
        for link in page.links | page.loaded:
            if is_outside(link):
                continue
            address = urllib.parse.urlsplit(link)
            target = (path.parent / urllib.parse.unquote(address.path)).resolve() if address.path else path
            assert target.exists(), f"{path.relative_to(site)} links to {link}"
            if address.fragment and target in pages and not address.fragment.startswith("__"):
                assert urllib.parse.unquote(address.fragment) in pages[target].anchors, f"{path.name}: {link}"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_on_the_site_and_kept_without_outputs(notebook: pathlib.Path, site: pathlib.Path) -> None:
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    assert notebook.name in Page(site / "notebooks" / f"{notebook.stem}.html").links


def test_newcomers_questions_are_on_the_front_page(site: pathlib.Path) -> None:
    """One click away, and the page shows an answer: what is printed, or a picture."""
    front = Page(site / "index.html")
    for name in QUESTIONS:
        assert f"how-to/{name}.html" in front.links
        text = (ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8")
        assert "\n```text\n" in text or "\n![" in text, name


def test_every_public_name_is_in_the_reference_with_an_example(site: pathlib.Path) -> None:
    described, shown = set(), set()
    for page in REFERENCE:
        for section in re.split(r"^(?=::: )", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            if found := re.match(r"::: weft\.(\w+)$", section, re.MULTILINE):
                described.add(found[1])
                code = "".join(re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
                shown |= {found[1]} if f"weft.{found[1]}" in code else set()
    assert described == set(weft.__all__), "the reference and weft.__all__ differ"
    assert shown == described
    built = {anchor for page in REFERENCE for anchor in Page(site / "reference" / f"{page.stem}.html").anchors}
    assert {f"weft.{name}" for name in weft.__all__} <= built


@pytest.fixture(scope="module")
def browser(site: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    if chromium.programs() is None:
        pytest.skip(chromium.MISSING)
    with chromium.headless(tmp_path_factory.mktemp("browser")) as window:
        yield window


@pytest.mark.slow
def test_search_works_from_the_file_system(site: pathlib.Path, browser: chromium.Browser) -> None:
    browser.resize(1200, 900)
    browser.open(site / "index.html")
    browser.click(".md-search__input")
    browser.type(".md-search__input", "negative binomial")
    found: list[str] = []
    deadline = time.monotonic() + 30
    while not found and time.monotonic() < deadline:
        time.sleep(0.2)
        found = browser.run("return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)")
    assert any("guide/counts.html" in address or "reference/likelihoods.html" in address for address in found)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 390])
def test_pages_fit_their_window(width: int, scheme: str, site: pathlib.Path, browser: chromium.Browser) -> None:
    browser.resize(width, 900)
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    for name in OPENED:
        browser.open(site / f"{name}.html")
        assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth"), name
        pictures = "return [...document.images].filter(i => i.loading !== 'lazy').every(i => i.naturalWidth > 0)"
        assert browser.run(pictures), name
        light = browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert light == (scheme == "light")
    assert [message for message in browser.console() if message["level"] == "SEVERE"] == []
