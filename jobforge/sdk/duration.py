"""How long: seconds as a number, or a timedelta, wherever the Python API takes a duration."""

import sys
from datetime import timedelta

from jobforge.errors import Invalid

Duration = float | timedelta


def to_seconds(duration: Duration, field: str) -> float:
    """Invalid with the field when it is no duration, or a negative one."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    # True would pass for one second.
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise Invalid(f"{field} must be seconds or a timedelta, not {duration!r}", field=field)
    if not 0 <= duration <= sys.float_info.max:  # nor is NaN
        raise Invalid(f"{field} must be finite, and not negative", field=field)
    return duration
