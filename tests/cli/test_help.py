# SPDX-License-Identifier: MIT
"""Help answers at once: it imports nothing heavy, and every verb has some."""

import subprocess
import sys

import pytest

from tests.cli.conftest import Run
from weft import extras

VERBS = (
    *("demo", "init", "check", "run", "fit", "predict", "sample", "update", "info", "report"),
    *("fill", "forecast", "grid", "aggregate", "point", "plot", "audit", "suggest"),
    *("score", "evaluate", "compare", "doctor", "reproduce"),
)
HEAVY = ("jax", "numpy", "pandas", "scipy", "numba", "equinox", "xarray", "pyarrow", "matplotlib", "narwhals", "pyproj")


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from weft.cli import main\n"
        f"status = main({arguments!r})\n"
        f"print('imported', [name for name in {HEAVY!r} if name in sys.modules])\n"
        "sys.exit(status)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "imported []"
    assert ended.stderr == ""


def test_garbage_is_looked_for_less_often_in_a_process_of_its_own() -> None:
    program = (
        "import gc, sys\n"
        "from weft.cli import main\n"
        "before = gc.get_threshold()\n"
        "main(['--version'])\n"
        "assert gc.get_threshold() == before\n"
        "sys.argv = ['weft', '--version']\n"
        "main()\n"
        "assert gc.get_threshold()[0] > 10 * before[0]\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_every_verb_has_help(run: Run) -> None:
    overview = run("--help")
    assert overview.status == 0
    assert "Exit status: 0 success" in overview.out
    for verb in VERBS:
        assert f" {verb} " in overview.out
        outcome = run(verb, "--help")
        assert outcome.status == 0
        assert f"weft {verb}" in outcome.out
        assert "--json" in outcome.out


def test_version(run: Run) -> None:
    from weft import __version__

    assert run("--version").out.strip() == __version__


def test_doctor_says_what_is_not_well(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.project.health._self_test", lambda engine: 1e-14)
    record = run("doctor", "--json").json
    assert record["problems"] == []
    assert set(record["engines"]) == {"cpu", "scan", "parallel", "dense", "time_blocks"}
    monkeypatch.setattr("weft.project.health._self_test", lambda engine: 1e-3 if engine == "scan" else 1e-14)
    outcome = run("doctor")
    assert outcome.status == 1
    assert "PROBLEM: engine scan is off by 1.0e-03 of the right answer" in outcome.out


@pytest.mark.skipif(not extras.is_installed("reproduce"), reason="the paper's experiments need an extra")
def test_reproduce_lists_experiments(run: Run) -> None:
    from weft_experiments import EXPERIMENTS

    assert run("reproduce", "--json").json == {"experiments": dict(EXPERIMENTS)}


def test_reproduce_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "reproduce", ("no_such_module",))
    outcome = run("reproduce", "emission", "--quick")
    assert outcome.status == 2
    assert outcome.err == (
        'weft: weft reproduce needs no_such_module, not installed here; run pip install "weft[reproduce]" first\n'
    )
