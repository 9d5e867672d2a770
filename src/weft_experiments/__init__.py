# SPDX-License-Identifier: MIT
"""The paper's experiments, each by one call: `run("benchmark", quick=True)`."""

from weft_experiments.registry import EXPERIMENTS, run

__all__ = ["EXPERIMENTS", "run"]
