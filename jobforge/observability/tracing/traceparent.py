"""`traceparent` as the W3C has it: which trace, which span of it, and whether it is recorded."""

import re
from typing import NamedTuple

# Versions to come may have more to say, after what all of them say.
_PATTERN = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
_ODD = "13579bdf"


class Traceparent(NamedTuple):
    """In hexadecimal, as they are written."""

    trace_id: str
    span_id: str
    flags: str

    @property
    def is_recorded(self) -> bool:
        return self.flags[1] in _ODD

    def child(self, span_id: str) -> str:
        """The traceparent of a recorded span under this one."""
        is_random = int(self.flags[1], 16) & 2
        return f"00-{self.trace_id}-{span_id}-{'03' if is_random else '01'}"

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def read_traceparent(text: str | None) -> Traceparent | None:
    """None for what is no traceparent: there is no trace to join then."""
    matched = text and _PATTERN.fullmatch(text)
    return Traceparent(*matched.groups()) if matched else None
