# SPDX-License-Identifier: MIT
"""What a notebook shows of weft's objects: small tables and lists, escaped, in the notebook's own style."""

import html
from collections.abc import Sequence

__all__ = ["facts_html", "table_html"]


def facts_html(facts: Sequence[Sequence[str]], said: Sequence[str] = ()) -> str:
    """Names and what they are, a line each, and sentences below."""
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in facts)
    listed = "".join(f"<li>{html.escape(text)}</li>" for text in said)
    return f"<table>{rows}</table>" + (f"<ul>{listed}</ul>" if said else "")


def table_html(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table under a title, the first cell of each line its name."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    lines = "".join(
        f"<tr><th>{html.escape(name)}</th>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in rows
    )
    return f"<p><b>{html.escape(title)}</b></p><table><tr>{head}</tr>{lines}</table>"
