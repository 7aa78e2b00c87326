"""Decides whether JSON is too large for a row. The engine limits the size as jsonb, not as text.

jsonb adds four bytes per value, and a number takes eight or more, so single-digit numbers take six
times the size of their JSON. Short JSON surely fits. For longer JSON, this module estimates an
upper limit of the jsonb size, which for text is close to the actual size.
"""

from collections.abc import Sequence
from typing import AnyStr

from jobforge.errors import Json
from jobforge.types.jobs import JobRequest
from jobforge.types.jsonb import encode

# Limits of check_job and read_outcomes, in bytes of jsonb.
PAYLOAD_LIMIT = 256 * 1024
RESULT_LIMIT = 1024 * 1024

_MOST_GROWTH = 6
_HEADER = 64
_BESIDE_VALUE = 12
_BESIDE_NAME = 8
SURELY_SMALL_LENGTH = (PAYLOAD_LIMIT - _HEADER) // _MOST_GROWTH  # of a payload, as text


def is_surely_small(text: str | bytes, limit: int) -> bool:
    return len(text) * _MOST_GROWTH + _HEADER <= limit


def fits(text: str, limit: int) -> bool:
    if is_surely_small(text, limit):
        return True
    size = len(text) if text.isascii() else len(text.encode())
    values = text.count(",") + text.count("[") + text.count("{")
    return size + _HEADER + _BESIDE_VALUE * values + _BESIDE_NAME * text.count(":") <= limit


def may_have_large_payload(jobs: str | bytes) -> bool:
    """Return whether one of many jobs, as JSON, may be too large, after checking few positions.

    Each job has "definition" once, so without large payloads the word recurs within a window. A
    payload that has the word itself can defeat the check; then the engine rejects it.
    """
    return (
        _has_gap(jobs, '"definition":')
        if isinstance(jobs, str)
        else _has_gap(jobs, b'"definition"')
    )


def _has_gap(text: AnyStr, marker: AnyStr) -> bool:
    position = 0
    while position + SURELY_SMALL_LENGTH < len(text):
        position = text.rfind(marker, position + 1, position + SURELY_SMALL_LENGTH)
        if position < 0:
            return True
    return False


def has_large_payload(payloads: Sequence[dict[str, Json] | None]) -> bool:
    return any(not fits(encode(each or {}, "payload"), PAYLOAD_LIMIT) for each in payloads)


def find_large_payloads(jobs: Sequence[JobRequest]) -> dict[int, bytes]:
    """Return the payloads that do not fit, by index, as JSON."""
    texts = ((index, encode(job.payload or {}, "payload")) for index, job in enumerate(jobs))
    return {index: text.encode() for index, text in texts if not fits(text, PAYLOAD_LIMIT)}
