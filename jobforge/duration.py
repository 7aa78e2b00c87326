"""How long: seconds as a number, or a timedelta, wherever the Python API takes a duration."""

import math
from datetime import timedelta

from jobforge.errors import Invalid

Duration = float | timedelta


def seconds(duration: Duration, field: str) -> float:
    """Invalid with the field when it is no duration, or a negative one."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    # True would pass for one second.
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise Invalid(f"{field} must be seconds or a timedelta, not {duration!r}", field=field)
    if not math.isfinite(duration) or duration < 0:
        raise Invalid(f"{field} cannot be {duration} seconds", field=field)
    return duration
