# SPDX-License-Identifier: MIT
"""Work on several threads."""

import jax
import jax.numpy as jnp

from weft.inference.at_once import at_once


def test_threads_compute_in_double_precision_where_the_caller_does_for_a_while():
    with jax.enable_x64(False), jax.enable_x64(True):
        found = at_once(lambda number: jnp.ones(2) / (3 + number), 5, 2)
    assert [answer.dtype for answer in found] == [jnp.float64] * 5
    assert [float(answer[0]) for answer in found] == [1 / (3 + number) for number in range(5)]


def test_nothing_to_do():
    assert at_once(lambda number: number, 0) == []
