# SPDX-License-Identifier: MIT
"""Numbers of things in words."""

__all__ = ["counted"]


def counted(number: int, thing: str) -> str:
    """`1 place`, `1,200 places`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
