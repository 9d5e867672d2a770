# SPDX-License-Identifier: MIT
"""What the engine may take, and where it changes its ways."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """Threads, memory, and sizes from which one way of working is faster than another. Numbers do not depend on them, but by rounding.

    `threads`: two by default, where the process may use two processors, because a series has two ends.
    `whole_bytes`: a series whose steps fit in this is kept whole for the way back; a longer one is filtered twice, its segments again
    on the way back. `segment_bytes`: then this is for the steps of one segment and the checkpoints; more of it would save little.
    `slice_seconds`: between two slices Python looks for Ctrl-C. `flops_per_second`: a low guess of the speed of the kernels, for the
    length of a slice and for whether a second thread pays. `seconds_for_two`: starting a thread costs a fraction of this; a shorter
    series stays on one. `seconds_for_switches`: rows are taken by switches where, time by time, they alone would take as long; the kernels
    for that are compiled apart. `bottleneck_for_blas_threads`: with one end only, BLAS threads pay from about this many pseudo-points on.
    `draws_at_once`: more draws are done in several passes, which bounds what a step must keep.
    """

    threads: int | None = None
    whole_bytes: int = 640 * 2**20
    segment_bytes: int = 64 * 2**20
    slice_seconds: float = 0.1
    flops_per_second: float = 5e9
    seconds_for_two: float = 1e-3
    seconds_for_switches: float = 0.5
    bottleneck_for_blas_threads: int = 200
    draws_at_once: int = 256

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be 1 or more; it is {self.threads}")
