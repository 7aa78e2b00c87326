"""The log of a process."""
# ruff: noqa: T201 - some of these tests are about printed text

import asyncio
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from jobforge.observability import logs
from jobforge.redact import MARKER
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob

JOB = UUID("018f4a2e-7b5c-7c3a-9d10-aabbccddeeff")
WORKER = UUID(int=1)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    logs.unconfigure()
    root.setLevel(level)


@pytest.fixture
def output() -> io.StringIO:
    """The output of a process that writes JSON at every level."""
    stream = io.StringIO()
    logs.configure(format="json", level="debug", worker_id=WORKER, stream=stream)
    return stream


def _lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def _line(output: io.StringIO) -> dict[str, Any]:
    [line] = _lines(output)
    return line


def _claimed(traceparent: str | None = None) -> ClaimedJob:
    values: dict[str, Any] = dict.fromkeys(ClaimedJob._fields)
    known = {"tenant_id": UUID(int=2), "job_id": JOB, "definition": "mail", "version": 3}
    return ClaimedJob(**{**values, **known, "attempt": 2, "traceparent": traceparent})


def test_an_event_is_one_object_with_the_fields_that_every_line_has(output: io.StringIO) -> None:
    before = datetime.now(UTC)
    logs.emit("job.dead", "error", duration_ms=12.5, **logs.job_fields(_claimed()))
    line = _line(output)
    written = datetime.fromisoformat(line.pop("timestamp"))
    assert abs((written - before).total_seconds()) < 60
    assert line == {
        "level": "error",
        "event": "job.dead",
        "worker_id": str(WORKER),
        "duration_ms": 12.5,
        "trace_id": JOB.hex,
        "job_id": str(JOB),
        "definition": "mail@3",
        "tenant_id": str(UUID(int=2)),
        "attempt": 2,
    }


def test_secrets_are_hidden_in_every_field(output: io.StringIO) -> None:
    logs.emit("x", password="hunter2", note="password=hunter2", deep=[{"token": "hunter2"}])
    assert "hunter2" not in output.getvalue()
    assert output.getvalue().count(MARKER) == 3


def test_a_line_break_in_a_value_does_not_end_the_line(output: io.StringIO) -> None:
    logs.emit("x", note='first\n{"event": "forged"}\r\n\x1b[2J')
    assert _line(output)["note"] == 'first\n{"event": "forged"}\r\n\x1b[2J'
    assert len(output.getvalue().splitlines()) == 1


def test_a_field_of_a_record_cannot_replace_a_field_of_jobforge(output: io.StringIO) -> None:
    logging.getLogger("library").info("x", extra={"timestamp": "never", "event": "job.dead"})
    line = _line(output)
    assert (line["event"], line["event_"], line["timestamp_"]) == ("log", "job.dead", "never")


def test_an_event_about_another_worker_names_that_worker(output: io.StringIO) -> None:
    logs.emit("worker.stale", worker_id=UUID(int=9))
    assert _line(output)["worker_id"] == str(UUID(int=9))


@pytest.mark.parametrize(
    "value", [10**30, "\ud800", float("nan"), {1: {2}}, b"\xff", object(), datetime.now(UTC), 1j]
)
def test_any_value_can_be_written(output: io.StringIO, value: Any) -> None:
    logs.emit("x", value=value)
    assert "value" in _line(output)


def test_fields_with_none_are_omitted(output: io.StringIO) -> None:
    logs.emit("x", a=None, b=0)
    assert {"a", "b"} & set(_line(output)) == {"b"}


def test_a_line_below_the_level_is_not_written() -> None:
    stream = io.StringIO()
    logs.configure(format="json", level="warning", stream=stream)
    assert [logs.is_enabled("info"), logs.is_enabled("warning")] == [False, True]
    logs.emit("quiet")
    logging.getLogger("library").info("quiet")
    logs.emit("loud", "warning")
    assert [line["event"] for line in _lines(stream)] == ["loud"]


def test_configuring_again_replaces_the_output(output: io.StringIO) -> None:
    second = io.StringIO()
    logs.configure(format="json", stream=second)
    logging.getLogger("library").warning("once")
    assert output.getvalue() == ""
    assert len(_lines(second)) == 1


def test_bound_fields_are_in_every_line_of_the_block(output: io.StringIO) -> None:
    with logs.bind_fields(job_id=JOB), logs.bind_fields(attempt=2):
        logs.emit("a")
        logging.getLogger("library").info("b")
    logs.emit("c")
    found = [(line.get("job_id"), line.get("attempt")) for line in _lines(output)]
    assert found == [(str(JOB), 2), (str(JOB), 2), (None, None)]


def test_in_the_context_of_a_job_every_line_names_the_job(output: io.StringIO) -> None:
    context = copy_context()
    context.run(CURRENT_JOB.set, _claimed(TRACEPARENT))
    context.run(logs.emit, "a")
    context.run(logging.getLogger("library").info, "b")
    logs.emit("c")
    found = [(line.get("job_id"), line.get("trace_id")) for line in _lines(output)]
    assert found == [(str(JOB), TRACE), (str(JOB), TRACE), (None, None)]


def test_fields_bound_in_one_task_are_not_seen_in_another(output: io.StringIO) -> None:
    async def say(number: int, others: asyncio.Barrier) -> None:
        with logs.bind_fields(number=number):
            await others.wait()
            logs.emit("said", expected=number)

    async def both() -> None:
        others = asyncio.Barrier(2)
        await asyncio.gather(say(1, others), say(2, others))

    asyncio.run(both())
    assert sorted(
        (line["number"], line["expected"]) for line in _lines(output) if line["event"] == "said"
    ) == [(1, 1), (2, 2)]


def test_records_of_other_libraries_have_the_same_format(output: io.StringIO) -> None:
    logging.getLogger("library.part").error(
        "sent %s to %s", "password=hunter2", "ada", extra={"order": 7, "token": "hunter2"}
    )
    line = _line(output)
    assert line["event"] == "log"
    assert line["level"] == "error"
    assert line["logger"] == "library.part"
    assert line["message"] == f"sent password={MARKER} to ada"
    assert (line["order"], line["token"]) == (7, MARKER)


def test_an_exception_is_written_with_its_traceback_and_without_its_secret(
    output: io.StringIO,
) -> None:
    def fail() -> None:
        raise RuntimeError("cannot log in with password=hunter2")

    try:
        fail()
    except RuntimeError:
        logging.getLogger("library").exception("it failed")
    error = _line(output)["error"]
    assert error["type"] == "RuntimeError"
    assert error["message"] == f"cannot log in with password={MARKER}"
    assert "in fail" in error["traceback"]
    assert "hunter2" not in output.getvalue()


def test_an_exception_that_cannot_be_printed_is_still_logged() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert logs.error_fields(Unprintable())["type"] == "Unprintable"


def test_warnings_are_logged(output: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logs.configure(format="json", stream=output)
        warnings.warn("old thing", DeprecationWarning, stacklevel=1)
        logs.unconfigure()
    assert "old thing" in _line(output)["message"]


def test_lines_of_many_threads_do_not_mix(output: io.StringIO) -> None:
    def say(number: int) -> None:
        for turn in range(50):
            logs.emit("said", number=number, turn=turn, filler="x" * 500)

    threads = [threading.Thread(target=say, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(_lines(output)) == 200


def test_an_output_without_a_reader_blocks_nothing() -> None:
    stream = io.StringIO()
    logs.configure(format="json", stream=stream)
    stream.close()
    logs.emit("unheard")


def test_before_configure_nothing_is_written_but_the_host_can_handle_records(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="jobforge"):
        logs.emit("job.dead", "error", job_id=JOB, password="hunter2")
        logs.emit("job.finished", "debug")
    assert caplog.messages == [f"job.dead job_id={JOB} password={MARKER}"]
    assert capsys.readouterr() == ("", "")


def test_before_configure_the_host_decides_what_is_enabled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="jobforge"):
        assert [logs.is_enabled("info"), logs.is_enabled("error")] == [False, True]


@pytest.mark.parametrize(
    ("stream", "is_json"), [(io.StringIO(), True), (Terminal(), False)], ids=["pipe", "terminal"]
)
def test_a_terminal_gets_text_and_a_pipe_gets_json(stream: io.StringIO, *, is_json: bool) -> None:
    logs.configure(stream=stream)
    logs.emit("worker.started", queues=["mail"])
    assert stream.getvalue().startswith("{") == is_json


def _text(monkeypatch: pytest.MonkeyPatch, no_color: str, **fields: Any) -> str:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    logs.configure(stream=stream)
    logs.emit("job.dead", "error", **fields)
    return stream.getvalue()


def test_text_names_the_event_and_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _text(monkeypatch, "1", job_id=JOB, reason="no such user", password="hunter2", n=[1])
    assert text[12:] == (
        f' error    job.dead job_id={JOB} reason="no such user" password={MARKER} n=[1]\n'
    )


def test_text_is_colored_unless_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[31m" in _text(monkeypatch, "")
    assert "\x1b" not in _text(monkeypatch, "1")


def test_text_shows_a_traceback_on_separate_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    error = {"type": "ValueError", "message": "no", "traceback": "Traceback:\n  line\x1b[2J\n"}
    assert _text(monkeypatch, "1", error=error)[12:] == (
        ' error    job.dead error="ValueError: no"\n    Traceback:\n      line\\x1b[2J\n'
    )


def test_text_contains_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _text(monkeypatch, "1", a="x\ny\x1b[2J\x9b", b={"c": "\x1b\u2028"})
    assert [sign for sign in text if not sign.isprintable()] == ["\n"]


@pytest.mark.parametrize(
    ("traceparent", "trace"),
    [
        (TRACEPARENT, TRACE),
        (None, JOB.hex),
        ("", JOB.hex),
        ("nonsense", JOB.hex),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", JOB.hex),
        (f"00-{TRACE}-{'0' * 16}-01", JOB.hex),
        (TRACEPARENT.replace("00-", "ff-", 1), JOB.hex),
        (TRACEPARENT.upper(), JOB.hex),
        (f"cc{TRACEPARENT[2:]}-what-comes-later", TRACE),
    ],
)
def test_the_trace_is_the_enqueuers_or_else_the_jobs_own(
    traceparent: str | None, trace: str
) -> None:
    assert logs.job_fields(_claimed(traceparent))["trace_id"] == trace


def test_printed_text_is_logged_line_by_line(output: io.StringIO) -> None:
    with logs.capture_output():
        print("first", "password=hunter2")
        print("second\nof two lines", file=sys.stderr)
        sys.stdout.buffer.write(b"bytes \xff\n")
        print("no line end", end="")
    printed = [(line["stream"], line["message"]) for line in _lines(output)]
    assert printed == [
        ("stdout", f"first password={MARKER}"),
        ("stderr", "second\nof two lines"),
        ("stdout", "bytes \\xff"),
        ("stdout", "no line end"),
    ]


def test_a_secret_of_several_lines_is_hidden_when_it_is_printed_at_once(
    output: io.StringIO,
) -> None:
    with logs.capture_output():
        print("key:", "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", sep="\n")
    assert "MIIE" not in output.getvalue()


def test_printed_text_is_no_longer_logged_after_the_capture(
    capsys: pytest.CaptureFixture[str], output: io.StringIO
) -> None:
    with logs.capture_output():
        pass
    print("plain")
    assert capsys.readouterr().out == "plain\n"
    assert output.getvalue() == ""


def test_lines_go_to_the_real_output_when_configured_within_a_capture_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logs.capture_output():
        logs.configure(format="json")
        print("printed")
    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == [
        "printed"
    ]


def test_threads_that_print_do_not_mix_their_lines(output: io.StringIO) -> None:
    def say(number: int) -> None:
        for _ in range(50):
            print(number, number, number)

    with logs.capture_output():
        threads = [threading.Thread(target=say, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {line["message"] for line in _lines(output)} == {f"{n} {n} {n}" for n in range(4)}
