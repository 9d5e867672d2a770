# SPDX-License-Identifier: MIT
"""Arrays of numbers as short text: whole numbers between a lowest and a highest value, little-endian, in base64."""

import base64
import dataclasses
from typing import final

import numpy as np
from jaxtyping import Float

__all__ = ["Packed", "pack", "unpack"]


@final
@dataclasses.dataclass(frozen=True)
class Packed:
    """Numbers from `low` (code 0) to `high` (the last code but one), each to within half a step; the last code is "none"."""

    low: float
    high: float
    bits: int
    codes: str

    @property
    def step(self) -> float:
        return (self.high - self.low) / (2**self.bits - 2)


def pack(values: Float[np.ndarray, "..."], *, bits: int, low: float | None = None, high: float | None = None) -> Packed:
    """`values` in 8 or 16 bits each, in their order; numbers beyond a given `low` or `high` are moved to it."""
    present = values[np.isfinite(values)]
    lowest = float(np.min(present, initial=np.inf)) if low is None else low
    highest = float(np.max(present, initial=-np.inf)) if high is None else high
    if not lowest < highest:
        # Nothing, or one number only: any interval around it will do.
        lowest = lowest if np.isfinite(lowest) else 0.0
        highest = lowest + max(1e-6, 1e-6 * abs(lowest))
    most = 2**bits - 2
    inside = np.clip(np.where(np.isfinite(values), values, lowest), lowest, highest)
    whole = np.rint((inside - lowest) / (highest - lowest) * most)
    codes = np.where(np.isfinite(values), whole, most + 1).astype("<u1" if bits == 8 else "<u2")
    return Packed(lowest, highest, bits, base64.b64encode(codes.tobytes()).decode("ascii"))


def unpack(packed: Packed) -> Float[np.ndarray, " number"]:
    """The numbers again, NaN where there was none."""
    codes = np.frombuffer(base64.b64decode(packed.codes), dtype="<u1" if packed.bits == 8 else "<u2")
    numbers = packed.low + codes * packed.step
    return np.where(codes == 2**packed.bits - 1, np.nan, numbers)
