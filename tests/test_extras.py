# SPDX-License-Identifier: MIT
"""What is installed on request only: declared once for pip and once for the sentence, and the core does without it."""

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

from weft import extras

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {"pillow": "PIL"}


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_-]", requirement)[0]


def test_extras_are_those_of_the_project_file() -> None:
    declared = dict(PROJECT["optional-dependencies"])
    everything = declared.pop("all")
    modules = {extra: {MODULES.get(name_of(r), name_of(r)) for r in needed} for extra, needed in declared.items()}
    assert modules == {extra: set(found) for extra, found in extras.EXTRAS.items()}
    assert everything == [f"weft[{extra}]" for extra in declared]


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "reproduce", ("json", "no_such_module"))
    with pytest.raises(ImportError) as raised:
        extras.require("reproduce", "the report")
    assert str(raised.value) == (
        'the report needs no_such_module, not installed here; run pip install "weft[reproduce]" first'
    )


def test_the_core_imports_no_extra() -> None:
    """Every module of the package, the command line included, imports where nothing but the core is installed."""
    program = (
        "import importlib, pkgutil, sys\n"
        f"for name in {sorted({m for found in extras.EXTRAS.values() for m in found} - {'PIL'})!r}:\n"
        "    sys.modules[name] = None\n"
        "import weft\n"
        "for module in pkgutil.walk_packages(weft.__path__, 'weft.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "print([name for name in sys.modules if name.startswith('weft_experiments')])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr
