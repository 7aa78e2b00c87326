"""Which JSON is too large for a row. The engine measures jsonb; here only its text is at hand.

jsonb keeps four bytes beside each value, and a number in eight or more: of numbers of one digit it
makes six times their text. So what is short is known to fit at once, and of the rest is counted
what could make it larger. That is never too little, and for text hardly too much.
"""

from collections.abc import Sequence
from typing import AnyStr

from jobforge.errors import Json
from jobforge.types.jobs import JobRequest
from jobforge.types.jsonb import encode

# As check_job and read_outcomes have them, in bytes of jsonb.
PAYLOAD_LIMIT = 256 * 1024
RESULT_LIMIT = 1024 * 1024

_MOST_GROWTH = 6
_HEADER = 64
_BESIDE_VALUE = 12
_BESIDE_NAME = 8


def is_surely_small(text: str | bytes, limit: int) -> bool:
    return len(text) * _MOST_GROWTH + _HEADER <= limit


def fits(text: str, limit: int) -> bool:
    if is_surely_small(text, limit):
        return True
    size = len(text) if text.isascii() else len(text.encode())
    values = text.count(",") + text.count("[") + text.count("{")
    return size + _HEADER + _BESIDE_VALUE * values + _BESIDE_NAME * text.count(":") <= limit


def may_have_large_payload(jobs: str | bytes) -> bool:
    """Of the text of many jobs: whether one of them may be too large. Looks at a few places only.

    Each job names its definition once, so those names are nowhere further apart than a large
    payload is long. One that holds the same words may deceive it; then the engine refuses it.
    """
    return (
        _has_gap(jobs, '"definition":')
        if isinstance(jobs, str)
        else _has_gap(jobs, b'"definition"')
    )


def _has_gap(text: AnyStr, word: AnyStr) -> bool:
    window = (PAYLOAD_LIMIT - _HEADER) // _MOST_GROWTH
    place = 0
    while place + window < len(text):
        place = text.rfind(word, place + 1, place + window)
        if place < 0:
            return True
    return False


def has_large_payload(payloads: Sequence[dict[str, Json] | None]) -> bool:
    return any(not fits(encode(each or {}, "payload"), PAYLOAD_LIMIT) for each in payloads)


def find_large_payloads(jobs: Sequence[JobRequest]) -> dict[int, bytes]:
    """By index, those that do not fit, as text."""
    texts = ((index, encode(job.payload or {}, "payload")) for index, job in enumerate(jobs))
    return {index: text.encode() for index, text in texts if not fits(text, PAYLOAD_LIMIT)}
