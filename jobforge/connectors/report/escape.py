"""Escapes untrusted text for the programs that display it.

A spreadsheet evaluates a cell that looks like a formula. Text with a right-to-left override reads
differently from what it is, and control characters can do more.
"""

import re

# Characters that begin a formula in a spreadsheet, including their full-width forms.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
# Characters that a program may skip before the formula: blanks and zero-width characters.
_SKIPPED = " \v\f\xa0\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\ufeff\0"
# Controls except tab and line feed, direction marks and overrides, line separators, surrogates.
_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_invisible(text: str) -> str:
    r"""Normalize line ends to \n; write other invisible characters as escapes such as \u202e."""
    return _INVISIBLE.sub(_escape_character, text.replace("\r\n", "\n").replace("\r", "\n"))


def escape_formula(text: str) -> str:
    """Escape a cell; put an apostrophe before one that a spreadsheet would evaluate."""
    if text.lstrip(_SKIPPED).startswith(_FORMULA):
        return f"'{escape_invisible(text)}"
    return escape_invisible(text)


def _escape_character(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
