# SPDX-License-Identifier: MIT
"""What a type checker makes of the public names: a user's program passes, and every mistake planted in it is found."""

import ast
import os
import pathlib
import re
import subprocess
import sys
from typing import get_args

import pytest

import weft
from weft.data.transforms import TRANSFORMS
from weft.estimator.defaults import _NAMED
from weft.folds import KINDS
from weft.options import HeldOutBy, LikelihoodName, TransformName

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUB = ROOT / "src" / "weft" / "__init__.pyi"
USER = pathlib.Path(__file__).with_name("user.py")
FOUND = re.compile(r"user\.py:(\d+): error: .*\[([a-z-]+)\]$")


def test_the_stub_has_the_names_of_the_package() -> None:
    stubbed = set()
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            assert all(alias.asname == alias.name for alias in node.names)
            stubbed |= {alias.name for alias in node.names}
            for alias in node.names:
                home = f"{node.module}.{alias.name}" if node.module == "weft" else node.module
                assert weft._home_of(alias.name) == home
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            stubbed.add(node.target.id)
    assert stubbed == set(weft.__all__)


def test_every_public_name_is_there() -> None:
    assert all(getattr(weft, name) is not None for name in weft.__all__)
    with pytest.raises(AttributeError, match="module 'weft' has no attribute 'Matern42'"):
        _ = weft.Matern42  # type: ignore[attr-defined]


def test_names_a_checker_knows_are_those_there_are() -> None:
    assert set(get_args(LikelihoodName)) == set(_NAMED)
    assert set(get_args(TransformName)) == set(TRANSFORMS)
    assert set(get_args(HeldOutBy)) == set(KINDS)


@pytest.mark.slow
def test_a_checker_finds_the_mistakes_planted_in_a_users_program() -> None:
    # Strict, as `make types` is: with its settings, what it has found out about everything else is read and not found out again.
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-color-output", str(USER)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
    )
    planted = {
        (number, line.rpartition("# wrong: ")[2])
        for number, line in enumerate(USER.read_text().splitlines(), 1)
        if "# wrong: " in line and not line.startswith('"""')
    }
    found = {(int(number), code) for line in ended.stdout.splitlines() for number, code in FOUND.findall(line)}
    assert len(planted) >= 15
    assert found == planted, ended.stdout + ended.stderr
