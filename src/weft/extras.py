# SPDX-License-Identifier: MIT
"""What is installed on request only, and the sentence that says how."""

import importlib.util
from collections.abc import Mapping

# As in pyproject.toml, where a test compares them: the extra's name, and the modules of the packages it brings.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "reproduce": ("pooch", "requests", "PIL"),
    "dask": ("dask", "distributed"),
    "excel": ("openpyxl",),
    "geo": ("pyogrio", "rasterio", "shapely"),
}


def is_installed(extra: str) -> bool:
    """Whether all that `extra` brings is there; nothing is imported."""
    return not _missing(extra)


def require(extra: str, purpose: str) -> None:
    """Raise ImportError with the command that installs `extra`, unless what it brings is there; nothing is imported."""
    missing = _missing(extra)
    if missing:
        raise ImportError(
            f'{purpose} needs {" and ".join(missing)}, not installed here; run pip install "weft[{extra}]" first'
        )


def _missing(extra: str) -> list[str]:
    return [module for module in EXTRAS[extra] if importlib.util.find_spec(module) is None]
