# SPDX-License-Identifier: MIT
"""Tables in, tables out."""

from weft.estimator.comparison import compare
from weft.estimator.space_time_gp import SpaceTimeGP

__all__ = ["SpaceTimeGP", "compare"]
