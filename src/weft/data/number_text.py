# SPDX-License-Identifier: MIT
"""Text where numbers are needed: words that mean there is no value, and what to type in the place of others."""

import re
from collections.abc import Iterable

__all__ = ["LEADING_ZERO", "MISSING_WORDS", "advice_for", "are_nearly_numbers", "is_missing_word"]

# What people and Arrow write for "no value" among numbers, in lower case. A trace of rain (T) is a value, and so is what was not detected.
MISSING_WORDS = frozenset(
    {"", "na", "n/a", "nan", "-nan", "null", "none", "<na>", "#n/a", "#na", "#n/a n/a", "missing", "m"}
    | {"-", "--", "---", ".", "..", "...", "*", "**", "***", "****", "?"}
)
# A code such as 007 is no number: read as one and written again it would be another station.
LEADING_ZERO = re.compile(r"\s*0\d+\s*")
_DASHES = "\N{MINUS SIGN}\N{EN DASH}"
_SIGNS = rf"+\-{_DASHES}"
_PLAIN = rf"[{_SIGNS}]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?"
_GROUPS = rf"[{_SIGNS}]?\d{{1,3}}([.,' \N{{NO-BREAK SPACE}}\N{{NARROW NO-BREAK SPACE}}]\d{{3}})+([.,]\d+)?"
_TRACE = frozenset({"t", "tr", "trace"})
# What a text may be instead of a number, first come first served, and what to type.
_OTHERWISE = (
    (rf"[<>]=?\s*{_PLAIN}", "a limit: write the number, and the limit in a column of its own for likelihood tobit"),
    (rf"[{_DASHES}].*", "write its sign as '-'"),
    (r"\d+,\d{1,2}|\d+,\d{4,}", "write decimals with a point, such as 12.5"),
    (_GROUPS, "write it without separators between thousands, such as 1234.5"),
    (
        rf"[^\w{_SIGNS}]*\s*({_GROUPS}|{_PLAIN})\s*[^\d]*",
        "write the number alone; what it is measured in goes to units=, a flag to a column of its own",
    ),
)


def is_missing_word(text: str) -> bool:
    return text.strip().lower() in MISSING_WORDS


def advice_for(text: str) -> str:
    """What to type in the place of a text that is no number."""
    text = text.strip()
    if text.lower() in _TRACE:
        return "a trace: write 0, or half the least amount that is told"
    return next((said for way, said in _OTHERWISE if re.fullmatch(way, text)), "leave it empty where there is no value")


def are_nearly_numbers(texts: Iterable[str]) -> bool:
    """Whether most of some texts are numbers, or would be if they were written otherwise."""
    given = [text.strip() for text in texts if not is_missing_word(text)]
    ways = re.compile("|".join([_PLAIN, *(way for way, _ in _OTHERWISE)]))
    return bool(given) and sum(ways.fullmatch(text) is not None for text in given) > 0.5 * len(given)
