"""Jobs that misbehave: each ends with the right outcome, and a concurrent job is not affected."""

import os
import resource
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import wait_until
from integration.isolation_rig import IsolationRig, error, is_alive, live_processes_of, outcome

from jobforge.types.jobs import Outcome
from jobforge.worker.isolation import landlock, proc
from jobforge.worker.isolation.frames import MAX_FRAME_BYTES, FrameKind
from jobforge.worker.isolation.output_tail import TAIL_BYTES
from jobforge.worker.runner_protocol import Report, StopReason

MIB = 1024**2
# Nested too deeply to be parsed; with a long number, which selects another parser.
TOO_DEEP = "[1234567890123456789012," + "[" * 10_000


@pytest.fixture(scope="module")
def rig() -> Iterator[IsolationRig]:
    created = IsolationRig()
    yield created
    created.close()


@pytest.fixture
def concurrent(rig: IsolationRig, tmp_path: Path) -> "ConcurrentRun":
    return ConcurrentRun(rig, tmp_path / "gate")


class ConcurrentRun:
    """Runs a job while another one runs, which must succeed."""

    def __init__(self, rig: IsolationRig, fifo: Path) -> None:
        self._rig = rig
        self._fifo = fifo
        os.mkfifo(fifo)

    def run(self, definition: str, *, stop: StopReason | None = None, **payload: Any) -> Report:
        return self._rig.run_in_loop(self._run(definition, stop, payload))

    async def _run(
        self, definition: str, stop: StopReason | None, payload: dict[str, Any]
    ) -> Report:
        neighbour = await self._rig.start("wait", fifo=str(self._fifo)).wait_for_note()
        poison = self._rig.start(definition, **payload)
        if stop is not None:
            await poison.wait_for_note()
            poison.stop(stop)
        report = await poison.report()
        assert not neighbour.has_ended
        gate = os.open(self._fifo, os.O_RDWR)
        os.write(gate, b".")
        unhurt = await neighbour.report()
        os.close(gate)
        assert outcome(unhurt) is Outcome.SUCCEEDED
        wait_until(lambda: not live_processes_of(poison.mark))
        return report


@pytest.mark.attack("hostile handlers")
@pytest.mark.parametrize(
    ("definition", "exit_code", "message"),
    [
        ("segfault", -signal.SIGSEGV, "Killed by SIGSEGV"),
        ("kill_itself", -signal.SIGKILL, "Killed by SIGKILL"),
        ("exit_at_once", 3, "Exited with code 3 and without an outcome"),
        ("close_everything", 70, "Exited with code 70 and without an outcome"),
    ],
)
def test_a_process_that_exits_without_a_message_has_crashed(
    concurrent: ConcurrentRun, definition: str, exit_code: int, message: str
) -> None:
    report = concurrent.run(definition)
    assert outcome(report) is Outcome.CRASHED
    assert report.exit_code == exit_code
    assert error(report)["message"] == message


def test_a_handler_that_calls_sys_exit_has_failed(concurrent: ConcurrentRun) -> None:
    report = concurrent.run("exit_politely")
    assert outcome(report) is Outcome.FAILED
    assert error(report)["type"] == "SystemExit"


@pytest.mark.attack("hostile handlers")
@pytest.mark.parametrize(
    ("definition", "payload"),
    [
        ("take_memory", {"size": 512}),
        ("take_shared_memory", {"size": 512}),
        ("take_memory_in_children", {"size": 128, "children": 4}),
        ("take_payload", {"text": "x" * (24 * MIB)}),
    ],
    ids=["its own", "shared", "in all its processes", "for its payload"],
)
def test_a_job_over_its_memory_limit_has_crashed_with_that_reason(
    concurrent: ConcurrentRun, definition: str, payload: dict[str, Any]
) -> None:
    report = concurrent.run(definition, **payload)
    assert outcome(report) is Outcome.CRASHED
    assert error(report)["reason"] == "memory"


@pytest.mark.attack("hostile handlers")
def test_a_payload_beyond_the_memory_limit_crashes_its_process(concurrent: ConcurrentRun) -> None:
    report = concurrent.run("take_payload", text="x" * (40 * MIB))
    assert outcome(report) is Outcome.CRASHED
    assert error(report)["reason"] == "memory"


def test_a_job_within_its_memory_limit_succeeds(rig: IsolationRig) -> None:
    assert rig.result("take_memory", size=200) == 200 * MIB


@pytest.mark.parametrize("definition", ["spin", "spin_on"])
def test_a_job_over_its_cpu_limit_has_crashed_with_that_reason(
    concurrent: ConcurrentRun, definition: str
) -> None:
    report = concurrent.run(definition)
    assert outcome(report) is Outcome.CRASHED
    assert error(report)["reason"] == "cpu"


def test_a_file_over_its_limit_is_an_error_of_the_handler(concurrent: ConcurrentRun) -> None:
    report = concurrent.run("write_much")
    assert outcome(report) is Outcome.FAILED
    assert error(report)["type"] == "OSError"


def test_a_handler_with_closed_output_can_return(concurrent: ConcurrentRun) -> None:
    report = concurrent.run("close_output")
    assert outcome(report) is Outcome.SUCCEEDED


@pytest.mark.attack("messages to the worker")
def test_a_handler_that_writes_to_the_worker_socket_has_crashed(concurrent: ConcurrentRun) -> None:
    report = concurrent.run("speak_out_of_turn")
    assert outcome(report) is Outcome.CRASHED
    assert error(report)["message"] == "Wrote to the socket that is reserved for its worker"


@pytest.mark.attack("messages to the worker")
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FrameKind.VERDICT, '{"outcome": "failed", "error": 5}'),
        (FrameKind.VERDICT, '{"outcome": "canceled", "reason": ["no"]}'),
        (FrameKind.VERDICT, '{"outcome": "failed", "final": "yes"}'),
        (FrameKind.VERDICT, TOO_DEEP),
        (FrameKind.REQUEST, TOO_DEEP),
    ],
)
def test_a_handler_that_forges_a_verdict_has_crashed(
    concurrent: ConcurrentRun, kind: FrameKind, body: str
) -> None:
    report = concurrent.run("forge", kind=kind, body=body)
    assert outcome(report) is Outcome.CRASHED
    assert error(report)["message"] == "Wrote to the socket that is reserved for its worker"


def test_the_end_of_a_process_is_reported_whatever_its_last_message_was(
    concurrent: ConcurrentRun,
) -> None:
    assert outcome(concurrent.run("forge_behind_a_flood", body=TOO_DEEP)) is Outcome.CRASHED


@pytest.mark.attack("messages to the worker")
def test_a_handler_that_sends_requests_and_never_reads_has_crashed(
    concurrent: ConcurrentRun, rig: IsolationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobforge.worker.isolation.job_process.MAX_FRAME_BYTES", MIB)
    monkeypatch.setattr(rig.host, "request", _answering("x" * 10_000))
    report = concurrent.run("ask_and_never_listen")
    assert outcome(report) is Outcome.CRASHED
    assert error(report)["message"] == ("Sent requests to its worker without reading the responses")


def test_a_job_gets_an_error_for_a_response_that_is_too_large(
    concurrent: ConcurrentRun, rig: IsolationRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.host, "request", _answering("x" * MAX_FRAME_BYTES))
    report = concurrent.run("count_parents")
    assert outcome(report) is Outcome.FAILED
    assert "exceed the limit for messages" in error(report)["message"]


def _answering(answer: str) -> Callable[..., Awaitable[str]]:
    async def ask(*_: object, **__: object) -> str:
        return answer

    return ask


@pytest.mark.attack("hostile handlers")
def test_only_the_end_of_a_flood_of_output_is_kept(concurrent: ConcurrentRun) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = concurrent.run("flood", size=200)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert outcome(report) is Outcome.SUCCEEDED
    assert report.stdout_tail is not None
    assert report.stdout_tail.endswith("the end")
    assert len(report.stdout_tail) <= TAIL_BYTES
    assert (after - before) * 1024 < 100 * MIB


@pytest.mark.attack("hostile handlers")
@pytest.mark.parametrize("hide", [False, True], ids=["marked", "without its environment"])
def test_a_daemon_does_not_outlive_its_job_nor_delay_it(
    concurrent: ConcurrentRun,
    hide: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    report = concurrent.run("leave_daemon", hide=hide)
    assert report.verdict is not None
    assert report.verdict.outcome is Outcome.SUCCEEDED
    daemon = report.verdict.result
    wait_until(lambda: not is_alive(daemon))


@pytest.mark.attack("hostile handlers")
def test_a_program_left_running_does_not_outlive_its_job(concurrent: ConcurrentRun) -> None:
    report = concurrent.run("leave_program")
    assert report.verdict is not None
    program = report.verdict.result
    wait_until(lambda: not is_alive(program))


@pytest.mark.attack("hostile handlers")
def test_a_handler_that_ignores_all_signals_is_killed(concurrent: ConcurrentRun) -> None:
    report = concurrent.run("resist", stop=StopReason.CANCEL)
    assert outcome(report) is Outcome.CANCELED
    assert report.exit_code == -signal.SIGKILL


@pytest.mark.attack("hostile handlers")
def test_many_child_processes_end_with_their_job(concurrent: ConcurrentRun) -> None:
    assert (
        outcome(concurrent.run("multiply", processes=60, stop=StopReason.TIMEOUT))
        is Outcome.TIMED_OUT
    )


@pytest.mark.parametrize(
    ("definition", "payload", "kind", "words"),
    [
        ("return_much", {"size": 64}, "ResultTooLarge", "The result is larger than"),
        ("return_no_json", {}, "InvalidResult", "cannot be written as JSON"),
        ("return_nan", {}, "InvalidResult", "the number nan"),
    ],
)
def test_a_result_that_cannot_be_stored_is_a_final_failure(
    concurrent: ConcurrentRun, definition: str, payload: dict[str, Any], kind: str, words: str
) -> None:
    report = concurrent.run(definition, **payload)
    assert report.verdict is not None
    assert report.verdict.outcome is Outcome.FAILED
    assert report.verdict.final
    assert error(report)["type"] == kind
    assert words in error(report)["message"]


@pytest.mark.attack("hostile handlers")
@pytest.mark.skipif(not landlock.confines_signals(), reason="needs Linux 6.12 with Landlock")
def test_a_job_cannot_kill_the_zygote(rig: IsolationRig) -> None:
    before = rig.runner.zygote_pid
    report = rig.run("kill_parent")
    assert outcome(report) is Outcome.FAILED
    assert error(report)["type"] == "PermissionError"
    assert rig.result("add", a=1, b=1) == 2
    assert rig.runner.zygote_pid == before


def test_the_zygote_keeps_no_resources_of_all_these_jobs(rig: IsolationRig) -> None:
    zygote = rig.runner.zygote_pid
    assert zygote is not None
    rig.result("add", a=1, b=1)
    wait_until(lambda: proc.find_descendants([zygote], proc.read_table()) == {zygote})
