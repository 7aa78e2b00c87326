"""Parse times, durations and rates: `2026-12-24T18:00`, `90`, `90s`, `15m`, `1d`, `10/s`."""

import re
from datetime import UTC, datetime, timedelta

from jobforge.errors import Invalid

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.ASCII)


def parse_duration(text: str, option: str) -> float:
    """Return a duration in seconds."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise Invalid(f"{option} must be a duration such as 30, 90s, 15m, 2h or 1d, not {text!r}")
    return float(match[1]) * _UNITS[match[2]]


def parse_rate(text: str, option: str) -> tuple[int, float]:
    """Return the count and the period in seconds of a rate such as `10/s`."""
    count, _, period = text.strip().partition("/")
    length = f"1{period}" if period in {"s", "m", "h", "d"} else period
    if not count.isdecimal() or _DURATION.fullmatch(length) is None:
        raise Invalid(f"{option} must be a rate such as 10/s, 100/m or 5/30s, not {text!r}")
    return int(count), parse_duration(length, option)


def parse_rate_per_second(text: str, option: str) -> float:
    """Return the count per second of a rate such as `600/m`, or of a number."""
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    try:
        count, period_s = parse_rate(text, option)
        return count / period_s
    except (Invalid, ArithmeticError) as error:
        raise Invalid(f"{option} must be a rate such as 10, 10/s or 600/m, not {text!r}") from error


def parse_time_or_age(text: str, option: str) -> datetime:
    """Return a time from a time, or from an age such as `1h` before now."""
    if text[:4].isdecimal() and "-" in text:
        return parse_moment(text, option)
    if _DURATION.fullmatch(text.strip()) is None:
        raise Invalid(
            f"{option} must be a time such as 2026-12-24T18:00 or an age such as 1h, not {text!r}"
        )
    try:
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text, option))
    except OverflowError as error:
        raise Invalid(f"{option} is too far in the past: {text!r}") from error


def parse_moment(text: str, option: str) -> datetime:
    """Return a time. Without an offset it is in this machine's time zone."""
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise Invalid(f"{option} must be a time such as 2026-12-24T18:00, not {text!r}") from error
