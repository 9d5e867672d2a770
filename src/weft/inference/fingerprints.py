# SPDX-License-Identifier: MIT
"""What tells one problem from another: digests that are the same in every process."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from weft.data.observations import ROW_EXTRAS, Observations
from weft.model import Model

__all__ = ["add_arrays", "arrays_of_model", "arrays_of_rows", "description_of"]


def arrays_of_rows(data: Observations) -> list[Any]:
    layout = data.grouping.layout
    arrays: list[Any] = [data.values, data.times, data.places, layout.offsets, data.grouping.place_of_row]
    return arrays + [array for array in (getattr(data, name) for name in ROW_EXTRAS) if array is not None]


def arrays_of_model(model: Model) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(model) if eqx.is_array(leaf)]


def description_of(model: Model) -> str:
    """What a model is but for its numbers."""
    # Functions kept in a model print their address, which another process does not share.
    return re.sub(r" at 0x[0-9a-f]+", "", str(jax.tree.structure(model)))


def add_arrays(update: Callable[[bytes], object], arrays: Iterable[Any]) -> None:
    """Tell `update` of a digest what these arrays are."""
    for array in arrays:
        array = np.ascontiguousarray(array)
        update(f"{array.dtype}{array.shape}".encode())
        update(array.tobytes())
