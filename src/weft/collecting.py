# SPDX-License-Identifier: MIT
"""Where no garbage is looked for: imports, and loading of compiled kernels, make a million objects of which nearly all stay."""

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["without_collecting"]


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Nobody looks for garbage meanwhile; what was made counts as old afterwards, and is not looked through as new.

    Looking, again and again as objects grow in number, took a quarter of what it took to load a model and to ask it for the first time.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Through the permanent generation to the oldest; who has objects in the former keeps them there.
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if is_on:
            gc.enable()
