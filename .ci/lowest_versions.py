# SPDX-License-Identifier: MIT
"""Constraints for pip: of every dependency in pyproject.toml the lowest version that it allows."""

import pathlib
import tomllib

project = tomllib.loads((pathlib.Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
for requirement in project["dependencies"]:
    print(requirement.replace(">=", "=="))
