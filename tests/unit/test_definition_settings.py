"""Settings as users write them, and as the database accepts them."""

from datetime import timedelta
from typing import Any

import pytest

from jobforge.errors import Invalid
from jobforge.sdk.definition_settings import (
    GIB,
    MIB,
    DefinitionSettings,
    Rate,
    parse_size,
    read_settings,
)
from jobforge.sdk.outcome_exceptions import Retry


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (1, 1),
        ("512", 512),
        ("512B", 512),
        ("1k", 1024),
        ("256MB", 256 * MIB),
        ("256 MiB", 256 * MIB),
        ("256mb", 256 * MIB),
        ("1.5GB", int(1.5 * GIB)),
    ],
)
def test_a_size_is_a_number_or_a_string_with_a_unit(given: int | str, count: int) -> None:
    assert parse_size(given, "memory") == count


@pytest.mark.parametrize("given", ["", "MB", "256XB", "-1", "1e9", 0, True, None, "1 2"])
def test_an_invalid_size_is_refused(given: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_size(given, "memory")
    assert refusal.value.field == "memory"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", "with space"),
        ("key", ""),
        ("key", "k" * 201),
        ("queue", "-queue"),
        ("version", 0),
        ("version", True),
        ("timeout", 0),
        ("timeout", timedelta(days=8)),
        ("isolation", "thread"),
        ("open_files", 1),
        ("grace", -1),
    ],
)
def test_a_setting_out_of_bounds_is_refused_by_its_name(field: str, value: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        read_settings(**{"key": "report", field: value})
    assert refusal.value.field == field


def test_settings_with_units_become_seconds_and_bytes() -> None:
    settings = read_settings(
        key="report",
        retry=Retry(max_attempts=8, base=2, give_up_on=(KeyError,)),
        timeout=timedelta(seconds=1.5),
        memory="256MB",
        cpu=30,
    )
    assert (settings.max_attempts, settings.backoff_base_s, settings.give_up_on) == (
        8,
        2,
        (KeyError,),
    )
    assert settings.timeout_s == 2
    assert (settings.limits.memory_bytes, settings.limits.cpu_s) == (256 * MIB, 30)
    assert read_settings(key="report", retry=3).max_attempts == 3


def test_registered_settings_are_those_that_the_database_accepts() -> None:
    settings = DefinitionSettings(
        "a", max_running=2, rate=Rate(10, 60, 20), rate_per_key=Rate(1), hooks=True
    )
    assert settings.registration({"type": "object"}) == {
        "parameters": {"type": "object"},
        "queue": "default",
        "timeout_s": 3600,
        "max_attempts": 5,
        "backoff_base_s": 1,
        "backoff_cap_s": 3600,
        "max_running": 2,
        "rate_limit": 10,
        "rate_period_s": 60,
        "rate_burst": 20,
        "rate_limit_per_key": 1,
        "rate_period_per_key_s": 1,
        "hooks": True,
    }
