# SPDX-License-Identifier: MIT
"""`weft doctor`."""

from weft.cli.options import AsJson
from weft.cli.printing import emit, left

__all__ = ["doctor"]


def doctor(*, json: AsJson = False) -> int:
    """Say what weft runs on, and try its engines: the first thing to send with a report of a fault."""
    from weft.project.health import examine

    record, problems = examine()
    lines = [(name.replace("_", " "), str(value)) for name, value in record.items() if not isinstance(value, dict)]
    lines += [
        (f"{group} {name}", str(value)) for group in ("versions", "engines") for name, value in record[group].items()
    ]
    said = [f"PROBLEM: {problem}" for problem in problems] or ["all is well"]
    emit(record | {"problems": problems}, "\n".join([left(lines), *said]), as_json=json)
    return 1 if problems else 0
