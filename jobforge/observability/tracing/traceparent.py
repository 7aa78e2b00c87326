"""W3C `traceparent`: trace ID, span ID and sampling flag."""

import re
from typing import NamedTuple

# Later versions may append fields to those of version 00.
_PATTERN = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
_ODD = "13579bdf"


class Traceparent(NamedTuple):
    """The fields in hexadecimal, as they are written."""

    trace_id: str
    span_id: str
    flags: str

    @property
    def is_recorded(self) -> bool:
        return self.flags[1] in _ODD

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def read_traceparent(text: str | None) -> Traceparent | None:
    """Parse a traceparent; None if it is invalid, so that a new trace begins."""
    matched = text and _PATTERN.fullmatch(text)
    return Traceparent(*matched.groups()) if matched else None
