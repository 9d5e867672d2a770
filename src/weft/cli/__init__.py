# SPDX-License-Identifier: MIT
"""The command `weft`. One module a group of verbs; each turns arguments into calls of the library."""

from weft.cli.application import main

__all__ = ["main"]
