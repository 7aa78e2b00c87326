"""Durations of the Python API: seconds as a number, or a timedelta."""

import sys
from datetime import timedelta

from jobforge.errors import Invalid

Duration = float | timedelta


def to_seconds(duration: Duration, field: str) -> float:
    """Return the duration in seconds; raise Invalid unless it is finite and not negative."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    # bool is a subclass of int: True would mean one second.
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise Invalid(f"{field} must be seconds or a timedelta, not {duration!r}", field=field)
    if not 0 <= duration <= sys.float_info.max:  # False for NaN, too
        raise Invalid(f"{field} must be finite and not negative", field=field)
    return duration
