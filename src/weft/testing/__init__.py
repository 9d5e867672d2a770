# SPDX-License-Identifier: MIT
"""What weft asks of a kernel, a likelihood and an engine, to hold one's own to: each check raises AssertionError where it is not kept.

In a test of one's own:

    def test_mine() -> None:
        jax.config.update("jax_enable_x64", True)
        weft.testing.check_kernel(MyKernel(1.5))
"""

from weft.testing.engines import check_engine
from weft.testing.kernels import check_kernel
from weft.testing.likelihoods import check_likelihood

__all__ = ["check_engine", "check_kernel", "check_likelihood"]
