"""Text of strangers, made harmless for what will show it.

A spreadsheet runs what looks like a formula. A text with a right-to-left override reads as another
than it is, and one with control characters may do more than that.
"""

import re

# What a spreadsheet takes for the beginning of a formula, also in its wide form.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
# What a program may skip before it looks: blanks, and characters without a width.
_SKIPPED = " \v\f\xa0\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\ufeff\0"
# Controls but for tab and line feed, marks and overrides of direction, separators of lines.
_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_invisible(text: str) -> str:
    r"""Line ends are \n; other characters that are not seen are put into letters: \u202e."""
    return _INVISIBLE.sub(_escape_character, text.replace("\r\n", "\n").replace("\r", "\n"))


def escape_formula(text: str) -> str:
    """For a cell: one that a spreadsheet would compute begins with an apostrophe."""
    if text.lstrip(_SKIPPED).startswith(_FORMULA):
        return f"'{escape_invisible(text)}"
    return escape_invisible(text)


def _escape_character(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
