# SPDX-License-Identifier: MIT
"""What a verb says: results on standard output, for people or as JSON; remarks on standard error."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from weft.phases import Timings

__all__ = ["emit", "left", "remark", "with_profile"]


def emit(record: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """One result: `record` as one line of JSON (NaN is null), or `text`."""
    if as_json:
        import msgspec

        print(msgspec.json.encode(record, enc_hook=_plain).decode())
    else:
        print(text)


def remark(text: str) -> None:
    """Something said on the way, which is not the result."""
    print(text, file=sys.stderr)


def with_profile(record: Mapping[str, Any], text: str, timings: Timings | None) -> tuple[Mapping[str, Any], str]:
    """A result, as JSON and as text, with what each phase took where that was asked for."""
    if timings is None:
        return record, text
    return {**record, "timings": timings.to_json()}, f"{text}\n\n{timings}"


def left(lines: Sequence[tuple[str, str]]) -> str:
    """Two columns of text, both to the left."""
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, and paths, for JSON."""
    import numpy as np

    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)
