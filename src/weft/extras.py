# SPDX-License-Identifier: MIT
"""What is installed on request only, and the sentence that says how."""

import importlib.util
from collections.abc import Mapping

# As in pyproject.toml, where a test compares them: the extra's name, and the modules of the packages it brings.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "reproduce": ("pooch", "requests", "PIL"),
    "dask": ("dask", "distributed"),
}


def require(extra: str, purpose: str) -> None:
    """Raise ImportError with the command that installs `extra`, unless what it brings is there; nothing is imported."""
    missing = [module for module in EXTRAS[extra] if importlib.util.find_spec(module) is None]
    if missing:
        raise ImportError(
            f'{purpose} needs {" and ".join(missing)}, not installed here; run pip install "weft[{extra}]" first'
        )
