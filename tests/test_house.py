# SPDX-License-Identifier: MIT
"""Rules of the house that a program can see."""

import ast
import collections
import pathlib
from collections.abc import Iterator

import weft

SOURCE = pathlib.Path(weft.__file__).parent
MOST_ARGUMENTS = 8
MOST_LINES = 60


def parsed(folder: pathlib.Path = SOURCE) -> Iterator[tuple[pathlib.Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def test_what_always_travels_together_is_one_thing() -> None:
    """More arguments than one can tell apart by their place are grouped, or have names."""
    found = []
    for path, module in parsed():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and len(node.args) > MOST_ARGUMENTS:
                found.append(f"{path.name}:{node.lineno} {ast.unparse(node.func)}")
            elif isinstance(node, ast.FunctionDef) and len(node.args.args) > MOST_ARGUMENTS:
                found.append(f"{path.name}:{node.lineno} {node.name}")
    assert found == []


def test_a_long_function_of_the_engine_has_its_reason_above_it() -> None:
    found, seen = [], 0
    for path, module in parsed(SOURCE / "engines" / "cpu"):
        lines = path.read_text().splitlines()
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef):
                seen += 1
                above = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 2
                is_long = (node.end_lineno or 0) - node.lineno >= MOST_LINES
                if is_long and not lines[above].startswith("#"):
                    found.append(f"{path.name}:{node.lineno} {node.name}")
    assert found == []
    assert seen > 100


def test_each_noun_stands_once() -> None:
    """Two classes of one name are two things, or one that was written twice; engines call their parts what they are in each."""
    files = collections.defaultdict(list)
    for path, module in parsed():
        part = path.relative_to(SOURCE).parts[0]
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and part != "engines":
                files[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}
