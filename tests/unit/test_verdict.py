"""Verdicts: the outcome that the end of an attempt results in."""

import asyncio
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from jobforge.errors import ChildFailed, EventTimeout, Invalid, InvalidPayload, InvalidResult
from jobforge.redact import RedactionScope, redact_text, register_secret
from jobforge.sdk.definition_settings import DefinitionSettings
from jobforge.sdk.outcome_exceptions import AttemptSuspended, Cancel, Cancelled, Dead, Retry, Snooze
from jobforge.sdk.verdict import (
    ProcessExit,
    StopReason,
    Verdict,
    verdict_from_error,
    verdict_from_exit,
    verdict_from_invalid_result,
    verdict_from_result,
)
from jobforge.types.jobs import Outcome

SETTINGS = DefinitionSettings("mail", give_up_on=(LookupError,))
MOMENT = datetime(2027, 1, 1, tzinfo=UTC)
WAITING = AttemptSuspended({"kind": "sleep", "name": "sleep", "index": 0}, delay_s=60)


def _facts(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict without the text of its error."""
    facts = verdict.to_json()
    facts.pop("error", None)
    return facts


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("bad"), {"outcome": "failed"}),
        (KeyError("in give_up_on"), {"outcome": "failed", "final": True}),
        (InvalidPayload("no"), {"outcome": "failed", "final": True}),
        (Invalid("of a call that the handler made"), {"outcome": "failed"}),
        (Retry(), {"outcome": "failed"}),
        (Retry(after=30), {"outcome": "failed", "retry_in_s": 30}),
        (Retry(after=0), {"outcome": "failed", "retry_in_s": 0}),
        (Snooze(60), {"outcome": "snoozed", "retry_in_s": 60}),
        (Snooze(MOMENT), {"outcome": "snoozed", "run_at": MOMENT}),
        (WAITING, {"outcome": "snoozed", "retry_in_s": 60, "wait": WAITING.wait}),
        (
            BaseExceptionGroup("tasks", [BaseExceptionGroup("more", [WAITING])]),
            {"outcome": "snoozed", "retry_in_s": 60, "wait": WAITING.wait},
        ),
        (BaseExceptionGroup("tasks", [WAITING, ValueError()]), {"outcome": "failed"}),
        (InvalidResult("too large"), {"outcome": "failed", "final": True}),
        (EventTimeout("too late"), {"outcome": "failed", "final": True}),
        (ChildFailed("as its child"), {"outcome": "failed", "final": True}),
        (Cancel("enough"), {"outcome": "canceled", "reason": "enough"}),
        (Dead("hopeless"), {"outcome": "failed", "final": True}),
        (MemoryError(), {"outcome": "crashed"}),
        (Cancelled(), {"outcome": "failed"}),
        (asyncio.CancelledError(), {"outcome": "failed"}),
        (SystemExit(3), {"outcome": "failed"}),
    ],
)
def test_the_exception_of_a_handler_decides_the_outcome(
    error: BaseException, expected: dict[str, Any]
) -> None:
    assert _facts(verdict_from_error(error, SETTINGS)) == expected


@pytest.mark.parametrize(
    ("stopped", "expected"),
    [
        (StopReason.CANCEL, Outcome.CANCELED),
        (StopReason.TIMEOUT, Outcome.TIMED_OUT),
        (StopReason.SHUTDOWN, Outcome.RELEASED),
        (StopReason.LOST, Outcome.RELEASED),
    ],
)
@pytest.mark.parametrize("error", [Cancelled(), asyncio.CancelledError(), OSError(), MemoryError()])
def test_an_error_after_a_stop_counts_as_the_stop(
    stopped: StopReason, expected: Outcome, error: BaseException
) -> None:
    assert verdict_from_error(error, SETTINGS, stopped).outcome is expected


@pytest.mark.parametrize("stopped", [None, *StopReason])
@pytest.mark.parametrize(
    "error", [Snooze(60), Cancel(), Dead(), Retry(after=5), InvalidPayload(), KeyError()]
)
def test_an_outcome_that_a_handler_chose_applies_even_after_a_stop(
    error: Exception, stopped: StopReason | None
) -> None:
    assert _facts(verdict_from_error(error, SETTINGS, stopped)) == _facts(
        verdict_from_error(error, SETTINGS)
    )


@pytest.mark.parametrize(
    ("how", "message", "reason"),
    [
        (ProcessExit(code=3), "Exited with code 3 and without an outcome", None),
        (ProcessExit(code=0), "Exited with code 0 and without an outcome", None),
        (ProcessExit(signal=signal.SIGSEGV), "Killed by SIGSEGV", None),
        (ProcessExit(signal=250), "Killed by signal 250", None),
        (
            ProcessExit(signal=signal.SIGKILL, reason="memory"),
            "Exceeded its memory limit",
            "memory",
        ),
        (ProcessExit(signal=signal.SIGXCPU, reason="cpu"), "Exceeded its cpu limit", "cpu"),
        (ProcessExit(code=1, reason="file_size"), "Exceeded its file size limit", "file_size"),
    ],
)
def test_a_process_that_sent_no_outcome_has_crashed(
    how: ProcessExit, message: str, reason: str | None
) -> None:
    verdict = verdict_from_exit(how, None, None)
    assert verdict is not None
    assert verdict.outcome is Outcome.CRASHED
    assert verdict.error is not None
    assert (verdict.error["message"], verdict.error.get("reason")) == (message, reason)


@pytest.mark.parametrize(
    ("stopped", "expected"),
    [
        (StopReason.CANCEL, Outcome.CANCELED),
        (StopReason.TIMEOUT, Outcome.TIMED_OUT),
        (StopReason.SHUTDOWN, Outcome.RELEASED),
    ],
)
@pytest.mark.parametrize("said", [None, Verdict(Outcome.FAILED, error={"type": "Cancelled"})])
def test_a_process_that_was_stopped_has_the_outcome_of_the_stop(
    stopped: StopReason, expected: Outcome, said: Verdict | None
) -> None:
    verdict = verdict_from_exit(ProcessExit(signal=signal.SIGKILL), stopped, said)
    assert verdict is not None
    assert verdict.outcome is expected


@pytest.mark.parametrize(
    "stopped", [None, StopReason.CANCEL, StopReason.TIMEOUT, StopReason.SHUTDOWN]
)
def test_a_process_that_succeeded_before_it_was_stopped_has_succeeded(
    stopped: StopReason | None,
) -> None:
    said = verdict_from_result({"rows": 3})
    assert verdict_from_exit(ProcessExit(signal=signal.SIGKILL), stopped, said) == said


@pytest.mark.parametrize("said", [None, verdict_from_result(1)])
def test_a_lost_lease_has_no_verdict(said: Verdict | None) -> None:
    assert verdict_from_exit(ProcessExit(signal=signal.SIGKILL), StopReason.LOST, said) is None


def test_an_error_names_its_type_and_shows_only_the_users_part_of_the_traceback() -> None:
    def handler() -> None:
        raise ValueError("bad input")

    with pytest.raises(ValueError, match="bad input") as caught:
        handler()
    described = verdict_from_error(caught.value, SETTINGS).error
    assert described is not None
    assert (described["type"], described["message"]) == ("ValueError", "bad input")
    assert "in handler" in described["traceback"]


def test_an_error_of_a_library_is_named_with_its_module() -> None:
    described = verdict_from_error(asyncio.QueueFull(), SETTINGS).error
    assert described is not None
    assert described["type"] == "asyncio.queues.QueueFull"


def test_a_secret_is_hidden_even_where_the_text_is_cut() -> None:
    secret = "canary-5d41402abc4b2a76"
    register_secret(secret)
    for position in range(7_980, 8_010):
        described = verdict_from_error(ValueError("x" * position + secret), SETTINGS).error
        assert described is not None
        assert "canary" not in described["message"]
        assert "canary" not in described["traceback"]


def test_only_the_needed_part_of_a_message_of_many_megabytes_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def reading(text: str, scope: RedactionScope | None = None) -> str:
        read.append(len(text))
        return redact_text(text, scope)

    monkeypatch.setattr("jobforge.redact.redact_text", reading)
    described = verdict_from_error(ValueError("it failed: " + "x " * 25_000_000), SETTINGS).error
    assert described is not None
    assert described["message"].startswith("it failed: x x")
    assert len(described["message"]) == 8_000
    assert described["traceback"].endswith("x x \n")
    assert sum(read) < 1_000_000


def test_a_secret_is_hidden_even_where_a_very_long_text_was_cut_before_reading() -> None:
    secret = "canary-5d41402abc4b2a76"
    register_secret(secret)
    key = "-----BEGIN PRIVATE KEY-----" + "A" * 32_600 + "-----END PRIVATE KEY-----"
    for place in range(32_768 - len(secret), 32_768):
        text = key.ljust(place, ".") + secret + "." * 1_000_000
        described = verdict_from_error(ValueError(text), SETTINGS).error
        assert described is not None
        assert "canary" not in described["message"]
        assert "can" not in verdict_from_error(Cancel(text), SETTINGS).reason  # type: ignore[operator]


def test_an_error_whose_message_cannot_be_built_is_still_described() -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    described = verdict_from_error(BrokenError(), SETTINGS).error
    assert described is not None
    assert "RuntimeError" in described["message"]


def test_a_result_that_cannot_be_stored_is_a_final_failure() -> None:
    verdict = verdict_from_invalid_result(Invalid("holds a socket"))
    assert (verdict.outcome, verdict.final) == (Outcome.FAILED, True)
    assert verdict.error is not None
    assert verdict.error["type"] == "InvalidResult"


@pytest.mark.parametrize(
    "verdict",
    [
        verdict_from_result({"rows": [1, 2]}),
        verdict_from_result(None),
        verdict_from_error(ValueError("bad"), SETTINGS),
        verdict_from_error(Retry(after=0), SETTINGS),
        verdict_from_error(Cancel("enough"), SETTINGS),
        verdict_from_error(Dead(), SETTINGS),
    ],
)
def test_a_verdict_survives_encoding_and_decoding(verdict: Verdict) -> None:
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_a_time_is_read_back_from_its_text() -> None:
    verdict = verdict_from_error(Snooze(MOMENT), SETTINGS)
    written = {**verdict.to_json(), "run_at": MOMENT.isoformat()}
    assert Verdict.from_json(written) == verdict
