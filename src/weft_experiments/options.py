# SPDX-License-Identifier: MIT
"""What a user may choose about a run."""

import dataclasses
import pathlib

__all__ = ["VARIANTS", "RunOptions"]

VARIANTS = ("scripts", "text")


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How to run an experiment; None leaves a choice to the experiment, which may differ when `quick`."""

    output: pathlib.Path
    quick: bool = False
    data: pathlib.Path | None = None
    download: bool = False
    variant: str = "scripts"
    seed: int = 0
    max_iterations: int | None = None
    max_seconds: float | None = None
    pseudo_points: tuple[int, ...] | None = None
    sets: tuple[str, ...] | None = None
    num_times: tuple[int, ...] | None = None
    days: int | None = None

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant must be 'scripts' or 'text'; it is {self.variant!r}")
        if self.download and self.data is None:
            raise ValueError("download needs data: the folder to fetch the files into")
        for name in ("pseudo_points", "num_times"):
            if any(number < 1 for number in getattr(self, name) or ()):
                raise ValueError(f"{name} must be positive numbers; they are {getattr(self, name)}")
        if self.days is not None and self.days < 2:
            raise ValueError(f"days must be 2 or more; it is {self.days}")
