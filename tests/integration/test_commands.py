"""Jobs that run a program: its arguments, exit code and output, and whether it may run."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.isolation_rig import IsolationRig, error, outcome

from jobforge.types.jobs import Outcome
from jobforge.worker.runner_protocol import Report, StopReason


@pytest.fixture(scope="module")
def rig() -> Iterator[IsolationRig]:
    created = IsolationRig()
    yield created
    created.close()


@pytest.mark.attack("command arguments")
def test_each_value_is_one_argument_and_passes_through_no_shell(rig: IsolationRig) -> None:
    report = rig.run("say", first="$(id) `id` ; * \"' \n-n", second=2.5)
    assert outcome(report) is Outcome.SUCCEEDED
    assert report.stdout_tail == "$(id) `id` ; * \"' \n-n|2.5|"


def test_a_command_that_succeeds_returns_its_exit_code(rig: IsolationRig) -> None:
    assert rig.result("say", first="-v", second=True) == {"exit_code": 0}


def test_a_command_returns_its_stdout_if_asked(rig: IsolationRig) -> None:
    assert rig.result("print_text", text="Grüße") == {"exit_code": 0, "stdout": "Grüße\n"}
    token = f"ghp_{'a1' * 18}"
    result = rig.result("print_text", text=f"token={token}")
    assert token not in str(result), "secrets are hidden as in the stored output"
    longest = rig.result("print_text", text="x" * 100_000)
    assert len(longest["stdout"]) <= 64 * 1024


def test_a_failed_command_reports_its_exit_code_and_output(rig: IsolationRig) -> None:
    report = rig.run("leave")
    assert report.verdict is not None
    assert report.verdict.outcome is Outcome.FAILED
    assert report.verdict.final is None
    assert report.exit_code == 7
    assert error(report) == {
        "type": "CommandFailed",
        "message": "sh exited with code 7",
        "exit_code": 7,
    }
    assert (report.stdout_tail, report.stderr_tail) == ("out\n", "err\n")


@pytest.mark.parametrize("definition", ["missing", "folder"])
def test_a_program_that_cannot_be_run_is_a_final_failure(
    rig: IsolationRig, definition: str
) -> None:
    report = rig.run(definition)
    assert report.verdict is not None
    assert report.verdict.outcome is Outcome.FAILED
    assert report.verdict.final
    assert error(report)["type"] == "CommandNotStarted"


@pytest.mark.attack("command arguments")
@pytest.mark.parametrize(
    "payload",
    [{}, {"first": 1, "second": 2}, {"first": "a", "second": 1, "third": 1}, {"first": "a\0b"}],
)
def test_an_invalid_payload_is_a_final_failure(
    rig: IsolationRig, payload: dict[str, object]
) -> None:
    report = rig.run("say", **payload)
    assert report.verdict is not None
    assert report.verdict.final
    assert error(report)["type"] == "InvalidPayload"


@pytest.mark.attack("command arguments")
def test_a_command_has_only_the_built_environment(rig: IsolationRig) -> None:
    report = rig.run("tell_environment")
    assert report.stdout_tail is not None
    names = {line.partition("=")[0] for line in report.stdout_tail.splitlines()}
    assert names == {
        *("PATH", "LANG", "LC_ALL", "TZ", "HOME", "TMPDIR", "JOBFORGE_JOB", "JOBFORGE_JOB_ID")
    }


@pytest.mark.attack("command arguments")
def test_a_command_cannot_reach_the_worker(rig: IsolationRig) -> None:
    assert rig.run("list_descriptors").stdout_tail == "0\n1\n2\n"


@pytest.mark.parametrize("pause_s", [0, 0.001, 0.003])
def test_a_command_that_is_canceled_before_its_program_starts_ends(
    rig: IsolationRig, pause_s: float
) -> None:
    async def canceled() -> Report:
        started = rig.start("sleep")
        await asyncio.sleep(pause_s)
        started.stop(StopReason.CANCEL)
        return await started.report()

    report = rig.run_in_loop(canceled())
    assert (outcome(report), report.exit_code) == (Outcome.CANCELED, -signal.SIGTERM)


def test_a_command_of_the_configuration_runs(rig: IsolationRig) -> None:
    assert rig.run("greet", name="Ada").stdout_tail == "hello Ada"


def test_a_command_over_its_memory_limit_does_not_succeed(rig: IsolationRig) -> None:
    report = rig.run("hog")
    assert outcome(report) is Outcome.FAILED
    assert report.stderr_tail is not None
    assert "MemoryError" in report.stderr_tail


def test_a_canceled_command_first_gets_sigterm(rig: IsolationRig, tmp_path: Path) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)

    async def canceled() -> Report:
        started = rig.start("wait_long", fifo=str(fifo))
        assert await asyncio.to_thread(fifo.read_text, encoding="ascii") == "up\n"
        started.stop(StopReason.CANCEL)
        return await started.report()

    report = rig.run_in_loop(canceled())
    assert outcome(report) is Outcome.CANCELED
    assert report.exit_code == 5
    assert report.stdout_tail == "asked\n"


@pytest.mark.attack("command arguments")
def test_a_command_that_the_worker_does_not_allow_is_refused(rig: IsolationRig) -> None:
    report = rig.run("forbidden")
    assert outcome(report) is Outcome.FAILED
    assert error(report)["type"] == "Denied"
    assert report.pid is None
