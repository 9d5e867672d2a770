# SPDX-License-Identifier: MIT
"""The engine for CPUs: compiled filter and adjoint kernels over SciPy's BLAS, the whole series as one JAX operation.

The mathematics is in `filter`, `adjoint` and `ends`; `series` runs them over a series from one end or both.
"""

from weft.engines.cpu.engine import CpuEngine
from weft.engines.cpu.limits import Limits
from weft.engines.cpu.problem import FilterFailure

__all__ = ["CpuEngine", "FilterFailure", "Limits"]
