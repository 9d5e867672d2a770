# SPDX-License-Identifier: MIT
"""Every example of the README and the pages runs: Python with what it prints and draws, commands with the output they show, config files.

`make pages` (WEFT_WRITE_PAGES=yes) writes what examples print and draw into the pages and docs/images, where it is otherwise checked.
"""

import ast
import contextlib
import difflib
import io
import json
import os
import pathlib
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys

import matplotlib.pyplot as plt
import pytest

from weft.cli import main
from weft.project.settings import read_settings

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A text right below Python is what that printed.
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
DATA = re.compile(r"\]\((?:\.\./)*data/([^)]+\.csv)\)")
IMAGE = re.compile(r"!\[[^\]]*\]\((?:\.\./)*images/([^)]+)\)")
NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")
# Drawn by `weft demo`.
DRAWN_ELSEWHERE = {"map.png"}
WRITE = os.environ.get("WEFT_WRITE_PAGES") == "yes"
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
TAKES_MINUTES = ("weft demo",)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_examples_run(page: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    text = page.read_text(encoding="utf-8")
    for table in DATA.findall(text):
        shutil.copy(ROOT / "docs" / "data" / table, tmp_path)
    for block in BLOCK.finditer(text):
        kind, code, shown = block.groups()
        if kind == "python":
            printed = run_python(code, page, names)
            if WRITE and shown is not None:
                text = text.replace(block[0], f"```python\n{code}```\n\n```text\n{printed}```")
            elif shown is not None:
                assert is_alike(shown, printed), (
                    f"{page.name} shows what is no longer printed: run `make pages`\n{printed}"
                )
        elif kind == "console":
            run_console(code)
        elif kind == "toml":
            pathlib.Path("example.toml").write_text(code, encoding="utf-8")
            read_settings("example.toml")
    plt.close("all")
    drawn = set(IMAGE.findall(text)) - DRAWN_ELSEWHERE
    missing = {name for name in drawn if not (tmp_path / name).exists()}
    assert page.stem == "gallery" or not missing, f"{page.name} shows pictures that its code does not draw: {missing}"
    if WRITE:
        page.write_text(text, encoding="utf-8")
        for name in drawn - missing:
            shutil.copy(tmp_path / name, ROOT / "docs" / "images" / name)


@pytest.mark.parametrize("notebook", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run(notebook: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell after cell, and what a cell ends with shows itself."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            *before, last = ast.parse("".join(cell["source"]), notebook.name).body
            exec(compile(ast.Module(before, []), notebook.name, "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), notebook.name, "eval"), names)
                assert repr(value)
                assert not hasattr(value, "_repr_html_") or value._repr_html_()
            else:
                exec(compile(ast.Module([last], []), notebook.name, "exec"), names)
    plt.close("all")


def run_python(code: str, page: pathlib.Path, names: dict[str, object]) -> str:
    """What the code printed, without blanks at the ends of lines."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, f"{page.name}: {code.splitlines()[0]}", "exec"), names)
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())


def is_alike(shown: str, printed: str) -> bool:
    """Whether most words are the same.

    Numbers differ a little from machine to machine, and with them what is said of them: whether a search had converged, whether a
    station stands out, which of two guesses was better.
    """
    words = [NUMBER.sub(" ", text).split() for text in (shown, printed)]
    return difflib.SequenceMatcher(None, *words, autojunk=False).ratio() > 0.75


def test_a_page_that_shows_something_else_is_noticed() -> None:
    shown = "slow   sd 3.4 degC; time 4.27 days; (Matern32 in space)\n"
    assert is_alike(shown, "slow  sd 3.39 degC; time 4.3 days; (Matern32 in space)\n")
    assert not is_alike(shown, "slow: a deviation of 3.4 degC, which lasts 4.27 days\n")


def run_console(text: str) -> None:
    """Each `$ weft ...` ends well and says every line shown below it; `$ make ...` names a target there is."""
    shown = ""
    for line in text.splitlines():
        if not line.startswith("$ "):
            assert line.strip() in shown, f"{line!r} is not in what the command says:\n{shown}"
            continue
        command = line.removeprefix("$ ").partition("  #")[0].strip()
        program, *arguments = shlex.split(command)
        if program == "make":
            assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        elif program == "weft" and command not in TAKES_MINUTES:
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = main(arguments)
            shown = said.getvalue()
            assert status == 0, f"{command}\n{shown}"


def test_the_tables_of_the_readme_are_measured() -> None:
    script = ROOT / "benchmarks" / "readme_tables.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_verb_is_in_the_guide() -> None:
    from weft.cli.application import app

    text = (ROOT / "docs" / "guide" / "command-line.md").read_text(encoding="utf-8")
    for verb in app:
        if not verb.startswith("-"):
            assert f"`weft {verb}" in text, f"the guide does not tell of `weft {verb}`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert os.path.exists(page.parent / target), f"{page.name} links to {target}, which is not there"


NAMED = re.compile(r"`(weft(?:_experiments)?(?:\.\w+)+)`")
FILE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "docs/extending.md"])
def test_pages_name_what_is_there(page: str) -> None:
    """Every function, class and file that a page for contributors sends its reader to."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in NAMED.findall(text):
        pkgutil.resolve_name(name)
    for file in FILE.findall(text):
        # Below the package or the repository; a bare name may be that of any module of the package.
        is_there = (ROOT / file).exists() or any((ROOT / "src" / "weft").rglob(file))
        assert is_there, f"{page} names {file}, which is not there"


def test_the_one_place_to_go_has_what_is_to_be_changed_there() -> None:
    """Of each row of the contributor's table: names it gives without a module stand in a file that it gives."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", text.split("## Where a change goes")[1], re.MULTILINE)[1:]
    seen = 0
    for change, place in rows:
        there = "".join(
            path.read_text(encoding="utf-8")
            for file in FILE.findall(place)
            for path in [ROOT / file, *(ROOT / "src" / "weft").rglob(file)]
            if path.exists()
        )
        for name in re.findall(r"`(\w+)`", place) if there else []:
            seen += 1
            assert re.search(rf"\b{name}\b", there), (
                f"to change {change}, CONTRIBUTING.md names {name}, which is not there"
            )
    assert seen > 9


def test_the_paper_has_the_labels_of_the_map(shared_data: pathlib.Path) -> None:
    paper = shared_data.parent / "paper" / "paper.tex"
    if not paper.exists():
        pytest.skip("the paper's source is not beside the data")
    labels = set(re.findall(r"\\label\{([^}]*)\}", paper.read_text(encoding="utf-8")))
    cited = re.findall(
        r"`((?:eqn|thm|alg|sec):[a-z-]+)`", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    )
    assert len(cited) > 20
    assert set(cited) <= labels
