"""Isolated jobs: their process, their output, and how they are stopped."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EPERM
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from attacks import Attempts
from cluster import wait_until
from integration.isolation_rig import (
    APP,
    IsolationRig,
    RecordingHost,
    StartedJob,
    error,
    is_alive,
    live_processes_of,
    outcome,
)

from jobforge.errors import ConfigError
from jobforge.sdk.worker_requests import EnqueueChildren, SaveStep
from jobforge.types.jobs import Outcome
from jobforge.worker.isolation import landlock, zygote_client
from jobforge.worker.isolation import runner as process_runner
from jobforge.worker.isolation.runner import ProcessRunner
from jobforge.worker.runner_protocol import Report, StopReason

ENVIRONMENT = {
    **os.environ,
    "JOBFORGE_DATABASE_URL": "postgresql://canary",
    "JOBFORGE_SECRET_API": "canary",
    "PGPASSWORD": "canary",
    "OF_THE_WORKER": "canary",
    "LET_THROUGH": "yes",
}


@pytest.fixture(scope="module")
def rig() -> Iterator[IsolationRig]:
    created = IsolationRig(ENVIRONMENT)
    yield created
    created.close()


def test_a_result_comes_back_from_a_sync_handler(rig: IsolationRig) -> None:
    report = rig.run("add", a=2, b=3)
    assert report.verdict is not None
    assert (report.verdict.outcome, report.verdict.result) == (Outcome.SUCCEEDED, 5)
    assert report.exit_code == 0
    assert report.pid
    assert report.peak_memory_bytes
    assert report.cpu_ms is not None
    assert (report.stdout_tail, report.stderr_tail) == (None, None)


def test_a_result_comes_back_from_an_async_handler(rig: IsolationRig) -> None:
    assert rig.result("add_async", a=2, b=3) == 5


def test_an_error_has_the_users_part_of_its_traceback(rig: IsolationRig) -> None:
    report = rig.run("fail", message="no such mailbox")
    assert outcome(report) is Outcome.FAILED
    assert error(report)["type"] == "RuntimeError"
    assert error(report)["message"] == "no such mailbox"
    assert "isolated_app.py" in error(report)["traceback"]
    assert "child.py" not in error(report)["traceback"]


def test_an_invalid_payload_is_a_final_failure(rig: IsolationRig) -> None:
    report = rig.run("add", a=2, c=3)
    assert outcome(report) is Outcome.FAILED
    assert report.verdict is not None
    assert report.verdict.final
    assert error(report)["type"] == "InvalidPayload"


def test_a_payload_larger_than_a_socket_buffer_is_passed_and_returned(rig: IsolationRig) -> None:
    value = {"text": "ä" * 3_000_000, "number": 2**53 + 1}
    assert rig.result("echo", value=value) == value


def test_an_exception_message_that_is_not_valid_text_keeps_the_verdict(rig: IsolationRig) -> None:
    later = rig.run("ask_for_later", message="busy").verdict
    assert later is not None
    assert (later.outcome, later.retry_in_s) == (Outcome.FAILED, 600)
    given_up = rig.run("give_up", message="gone").verdict
    assert given_up is not None
    assert (given_up.outcome, given_up.reason) == (Outcome.CANCELED, "gone\ufffd?")


def test_a_job_cannot_enqueue_for_another_tenant_by_a_tenant_block(rig: IsolationRig) -> None:
    report = rig.run("enqueue_for", tenant="00000000-0000-0000-0000-000000000007")
    assert error(report)["type"] == "Denied"


def test_the_ambient_tenant_within_a_job_is_the_jobs_tenant(rig: IsolationRig) -> None:
    async def named() -> bool:
        job = rig.start("name_tenant")
        verdict = (await job.report()).verdict
        return verdict is not None and verdict.result == str(job.job.tenant_id)

    assert rig.run_in_loop(named())


def test_an_integer_of_many_digits_is_passed_exactly(rig: IsolationRig) -> None:
    report = rig.run("echo", value=10**30)
    # The number cannot be returned, because Python's JSON limits its length; but it was read.
    assert error(report)["type"] == "InvalidResult"


@pytest.fixture(scope="module")
def description(rig: IsolationRig) -> dict[str, Any]:
    """Return a description of a job's process from within."""
    found: dict[str, Any] = rig.result("describe")
    return found


def test_a_jobs_environment_is_built(description: dict[str, Any]) -> None:
    environ = description["environ"]
    assert set(environ) == {
        *("PATH", "LANG", "LC_ALL", "TZ", "HOME", "TMPDIR"),
        *("JOBFORGE_JOB", "JOBFORGE_JOB_ID", "LET_THROUGH"),
    }
    assert environ["JOBFORGE_JOB"] == description["mark"]
    assert "canary" not in environ.values()


@pytest.mark.parametrize("pattern", ["SHOP_*", "*"])
def test_a_pattern_passes_variables_on_but_no_credentials(pattern: str) -> None:
    rig = IsolationRig({**ENVIRONMENT, "SHOP_URL": "shop"}, job_environment=(pattern,))
    try:
        environ = rig.result("describe")["environ"]
    finally:
        rig.close()
    assert environ["SHOP_URL"] == "shop"
    assert not {"JOBFORGE_DATABASE_URL", "JOBFORGE_SECRET_API", "PGPASSWORD"} & set(environ)
    assert ("OF_THE_WORKER" in environ) == (pattern == "*")
    assert environ["HOME"] == environ["TMPDIR"]


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_an_error_about_a_missing_variable_names_the_setting(
    rig: IsolationRig, *, is_wrapped: bool
) -> None:
    found = error(rig.run("read_variable", name="SHOP_URL", is_wrapped=is_wrapped))
    assert found["type"] == ("RuntimeError" if is_wrapped else "KeyError")
    assert found["hint"].endswith('set job_environment = ["SHOP_URL"]')
    assert found["traceback"].endswith(f"\nHint: {found['hint']}\n")


def test_the_hint_about_a_variable_with_credentials_names_the_alternative(
    rig: IsolationRig,
) -> None:
    found = error(rig.run("read_variable", name="PGPASSWORD"))
    assert found["hint"].startswith("Isolated jobs never receive PGPASSWORD; use ctx.secret()")


def test_other_key_errors_have_no_hint(rig: IsolationRig) -> None:
    assert "hint" not in error(rig.run("look_up"))


def test_a_job_cannot_read_the_workers_environment_from_its_own_process(
    description: dict[str, Any],
) -> None:
    assert description["shown"] == f"JOBFORGE_JOB={description['mark']}"


def test_a_jobs_folder_is_private_and_is_removed(description: dict[str, Any]) -> None:
    environ = description["environ"]
    assert description["cwd"] == environ["HOME"] == environ["TMPDIR"] == description["tempdir"]
    assert description["cwd_mode"] == 0o700
    wait_until(lambda: not Path(description["cwd"]).exists())


def test_a_jobs_process_has_limits_and_no_privileges(description: dict[str, Any]) -> None:
    assert description["umask"] == 0o077
    assert description["core"] == 0
    assert description["files"] == 1024
    assert description["no_new_privs"]
    assert description["oom"] == "1000"


def test_a_jobs_process_leads_a_separate_session(
    rig: IsolationRig, description: dict[str, Any]
) -> None:
    assert description["session"] == description["pid"]
    assert description["parent"] == rig.runner.zygote_pid


def test_a_jobs_process_inherits_no_open_descriptors(description: dict[str, Any]) -> None:
    assert description["stdin"] == ""
    assert description["threads"] == 1
    # Its standard streams, the socket to the worker, and the folder that it is listing.
    assert description["descriptors"] == 5


def test_each_job_has_different_random_numbers(rig: IsolationRig) -> None:
    assert len({rig.result("describe")["random"] for _ in range(3)}) == 3


@pytest.mark.skipif(not landlock.is_available(), reason="needs Landlock")
@pytest.mark.attack("credentials")
def test_a_job_cannot_take_descriptors_of_the_worker_the_zygote_or_another_job(
    rig: IsolationRig, tmp_path: Path, attempts: Attempts
) -> None:
    async def errors() -> list[list[int]]:
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        other = await rig.start("wait", fifo=str(gate)).wait_for_note()
        (sibling,) = live_processes_of(other.mark)
        taken = [
            await rig.start("take_descriptors", pid=pid).report()
            for pid in (os.getpid(), rig.runner.zygote_pid, sibling)
        ]
        other.stop(StopReason.SHUTDOWN)
        await other.report()
        return [report.verdict.result for report in taken if report.verdict]

    attempts(6)
    assert rig.run_in_loop(errors()) == [[EPERM, EPERM]] * 3


def test_an_app_is_imported_with_the_workers_environment_but_without_database_credentials(
    rig: IsolationRig,
) -> None:
    environ = rig.result("recall_environment")
    for name in ("JOBFORGE_DATABASE_URL", "JOBFORGE_SECRET_API", "PGPASSWORD"):
        assert name not in environ
    assert environ["OF_THE_WORKER"] == "canary"


def test_files_that_a_job_leaves_are_removed(rig: IsolationRig) -> None:
    folder = Path(rig.result("leave_files"))
    wait_until(lambda: not folder.exists())


def test_write_protected_folders_are_removed_and_links_are_not_followed(
    rig: IsolationRig, tmp_path: Path
) -> None:
    tmp_path.chmod(0o750)
    (tmp_path / "file").touch()
    left = Path(rig.result("leave_read_only_folders", outside=str(tmp_path)))
    wait_until(lambda: not left.exists())
    assert (tmp_path / "file").exists()
    assert tmp_path.stat().st_mode & 0o777 == 0o750


def test_jobs_have_folders_although_a_cleaner_has_removed_the_parent_folder(
    rig: IsolationRig,
) -> None:
    around = Path(rig.result("leave_files")).parent
    wait_until(lambda: not any(around.iterdir()))
    around.rmdir()
    assert Path(rig.result("leave_files")).parent == around


def test_output_that_is_not_utf_8_is_escaped(rig: IsolationRig) -> None:
    async def output() -> list[tuple[str, dict[str, Any]]]:
        started = rig.start("tell_half_a_character")
        assert outcome(await started.report()) is Outcome.SUCCEEDED
        return rig.host.notes_of(started.job.job_id)

    assert rig.run_in_loop(output()) == [
        ("progress", {"done": 1, "total": 2, "message": "caf?"}),
        ("log", {"name": "caf?", "level": "info", "message": "read"}),
    ]


def test_very_long_note_values_are_cut_to_their_beginning(rig: IsolationRig) -> None:
    async def output() -> list[tuple[str, dict[str, Any]]]:
        started = rig.start("tell_much")
        assert outcome(await started.report()) is Outcome.SUCCEEDED
        return rig.host.notes_of(started.job.job_id)

    bodies = [data["body"] for _, data in rig.run_in_loop(output()) if data["status"] == 200]
    assert bodies == ["x" * 8_000, ('["x",' + '"x",' * 2_000)[:8_000]]


def test_a_handler_that_replaces_its_output_can_return(
    rig: IsolationRig,
) -> None:
    assert rig.result("replace_output") == "still here"


def test_a_task_canceled_by_other_code_is_not_a_stop_request(rig: IsolationRig) -> None:
    report = rig.run("await_the_cancelled")
    assert outcome(report) is Outcome.FAILED
    assert error(report)["type"] == "asyncio.exceptions.CancelledError"
    assert "isolated_app.py" in error(report)["traceback"]


def test_notes_of_a_job_reach_the_host_in_order(rig: IsolationRig) -> None:
    async def reported() -> tuple[StartedJob, Report]:
        started = rig.start("tell")
        return started, await started.report()

    started, report = rig.run_in_loop(reported())
    assert outcome(report) is Outcome.SUCCEEDED
    assert rig.host.notes_of(started.job.job_id) == [
        ("progress", {"done": 1, "total": 10, "message": "begun"}),
        ("log", {"level": "info", "message": "sent", "to": "ada", "when": "x"}),
        ("log", {"level": "error", "message": "not sent"}),
        ("event", {"name": "mail.sent", "data": {"id": 7}}),
    ]
    assert (report.stdout_tail, report.stderr_tail) == ("to stdout\n", "to stderr\n")


@pytest.mark.attack("terminal escapes")
def test_output_cannot_control_a_terminal(rig: IsolationRig) -> None:
    report = rig.run("show", text="\x1b[2Jred\x07 \xff\n")
    assert report.stdout_tail == "␛[2Jred␇ �\n"


def test_a_secret_is_passed_to_the_job_and_hidden_in_its_output(rig: IsolationRig) -> None:
    assert rig.result("tell_secret", name="api") == "s3cr3t-value"


def test_an_unknown_secret_is_an_error_of_the_job(rig: IsolationRig) -> None:
    report = rig.run("tell_secret", name="other")
    assert error(report)["type"] == "NotFound"
    assert error(report)["message"] == "Secret 'other' not found"


def test_the_worker_stores_steps_and_receives_waits(rig: IsolationRig) -> None:
    report = rig.run("walk")
    assert SaveStep("measure", 0, 4) in rig.host.requests
    children = [each for each in rig.host.requests if isinstance(each, EnqueueChildren)]
    assert [each.name for each in children] == ["add"]
    assert report.verdict is not None
    assert report.verdict.outcome is Outcome.SNOOZED
    assert report.verdict.retry_in_s == 60
    match = {"to": {"id": 7}}
    assert report.verdict.wait == {"kind": "event", "name": "word", "index": 0, "match": match}


def test_a_job_enqueues_through_its_worker_for_its_own_tenant(rig: IsolationRig) -> None:
    async def spread() -> tuple[StartedJob, Report]:
        started = rig.start("spread", numbers=[1, 2])
        return started, await started.report()

    started, report = rig.run_in_loop(spread())
    assert report.verdict is not None
    assert report.verdict.result == ["created", "created"]
    assert [(job.definition, job.payload, job.key) for job in rig.host.enqueued] == [
        ("add", {"a": 1, "b": 1}, "n1"),
        ("add", {"a": 2, "b": 2}, "n2"),
    ]
    assert set(rig.host.tenants) == {started.job.tenant_id}


def _stop_job(rig: IsolationRig, definition: str, why: StopReason, **payload: object) -> Report:
    async def stopped() -> Report:
        started = await rig.start(definition, **payload).wait_for_note()
        started.stop(why)
        started.stop(why)
        return await started.report()

    return rig.run_in_loop(stopped())


def test_a_handler_that_sees_the_cancel_request_may_finish(rig: IsolationRig) -> None:
    report = _stop_job(rig, "heed", StopReason.CANCEL)
    assert report.verdict is not None
    assert (report.verdict.outcome, report.verdict.result) == (Outcome.SUCCEEDED, "cleaned up")


def test_a_check_ends_a_canceled_job(rig: IsolationRig) -> None:
    assert outcome(_stop_job(rig, "heed_by_check", StopReason.CANCEL)) is Outcome.CANCELED


@pytest.mark.parametrize("definition", ["wait_blindly", "wait_blindly_async"])
@pytest.mark.parametrize(
    ("why", "expected"),
    [(StopReason.CANCEL, Outcome.CANCELED), (StopReason.TIMEOUT, Outcome.TIMED_OUT)],
)
def test_a_handler_that_does_not_check_is_interrupted(
    rig: IsolationRig, definition: str, why: StopReason, expected: Outcome
) -> None:
    report = _stop_job(rig, definition, why)
    assert outcome(report) is expected
    assert report.exit_code == 0
    assert report.stdout_tail == "interrupted\n"


def test_a_handler_that_resists_is_killed_after_its_grace_period(rig: IsolationRig) -> None:
    report = _stop_job(rig, "resist", StopReason.TIMEOUT)
    assert outcome(report) is Outcome.TIMED_OUT
    assert report.exit_code == -signal.SIGKILL


def test_a_job_whose_lease_is_lost_is_killed_and_reports_nothing(rig: IsolationRig) -> None:
    report = _stop_job(rig, "wait_blindly", StopReason.LOST)
    assert report.verdict is None
    assert report.exit_code == -signal.SIGKILL


def test_a_job_is_released_at_shutdown(rig: IsolationRig) -> None:
    assert outcome(_stop_job(rig, "wait_blindly", StopReason.SHUTDOWN)) is Outcome.RELEASED


def test_a_lost_lease_takes_precedence_over_a_cancel_request(rig: IsolationRig) -> None:
    async def stopped() -> Report:
        started = await rig.start("heed_by_check").wait_for_note()
        started.stop(StopReason.LOST)
        started.stop(StopReason.CANCEL)
        return await started.report()

    assert rig.run_in_loop(stopped()).verdict is None


def test_a_sigterm_from_outside_does_not_stop_a_job(rig: IsolationRig, tmp_path: Path) -> None:
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)

    async def signaled() -> Report:
        started = await rig.start("wait", fifo=str(fifo)).wait_for_note()
        for pid in live_processes_of(started.mark):
            os.kill(pid, signal.SIGTERM)
        with _open_fifo(fifo) as gate:
            os.write(gate.fileno(), b".")
            return await started.report()

    report = rig.run_in_loop(signaled())
    assert report.verdict is not None
    assert report.verdict.result == "unhurt"


def test_programs_started_by_a_job_react_to_signals(rig: IsolationRig) -> None:
    assert rig.result("interrupt_program") == -signal.SIGINT


def test_a_job_can_end_its_own_child_processes(rig: IsolationRig) -> None:
    async def left() -> Report:
        async with asyncio.timeout(10):
            return await rig.start("leave_a_pool").report()

    assert outcome(rig.run_in_loop(left())) is Outcome.SUCCEEDED


def test_a_job_notices_a_killed_child_at_once(rig: IsolationRig) -> None:
    async def killed() -> Report:
        started = await rig.start("wait_blindly").wait_for_note()
        for pid in live_processes_of(started.mark):
            os.kill(pid, signal.SIGKILL)
        return await started.report()

    report = rig.run_in_loop(killed())
    assert outcome(report) is Outcome.CRASHED
    assert error(report)["message"] == "Killed by SIGKILL"


def test_stopping_a_job_ends_its_whole_process_tree(rig: IsolationRig) -> None:
    async def stopped() -> tuple[StartedJob, Report]:
        started = await rig.start("multiply", processes=20).wait_for_note()
        # The processes in between may still be exiting.
        await asyncio.to_thread(wait_until, lambda: len(live_processes_of(started.mark)) == 21)
        started.stop(StopReason.LOST)
        return started, await started.report()

    started, _ = rig.run_in_loop(stopped())
    wait_until(lambda: not live_processes_of(started.mark))


def test_jobs_run_concurrently(rig: IsolationRig, tmp_path: Path) -> None:
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)

    async def together() -> list[Report]:
        started = [await rig.start("wait", fifo=str(fifo)).wait_for_note() for _ in range(5)]
        with _open_fifo(fifo) as gate:
            os.write(gate.fileno(), b"." * 5)
            return [await each.report() for each in started]

    assert [outcome(report) for report in rig.run_in_loop(together())] == [Outcome.SUCCEEDED] * 5


def test_many_concurrent_jobs_all_end(rig: IsolationRig) -> None:
    async def many() -> list[Report]:
        started = [rig.start("add", a=number, b=0) for number in range(60)]
        return [await each.report() for each in started]

    results = [report.verdict and report.verdict.result for report in rig.run_in_loop(many())]
    assert results == list(range(60))


def test_an_app_that_cannot_be_imported_is_refused_with_the_reason(tmp_path: Path) -> None:
    app = tmp_path / "broken.py"
    app.write_text("import there_is_no_such_module\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="there_is_no_such_module"):
        asyncio.run(_open(str(app)))


def test_an_app_whose_zygote_hook_fails_is_refused_with_the_reason(tmp_path: Path) -> None:
    app = tmp_path / "hooked.py"
    app.write_text(
        "from jobforge import JobForge\n"
        "jf = JobForge()\n"
        "@jf.on_zygote_start\n"
        "def load() -> None: raise OSError('no model')\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match="OSError: no model"):
        asyncio.run(_open(str(app)))


def test_an_app_that_ends_the_process_is_refused(tmp_path: Path) -> None:
    app = tmp_path / "ending.py"
    app.write_text("import os\nos._exit(0)\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="exited while it imported the app"):
        asyncio.run(_open(str(app)))


def test_an_app_that_starts_threads_causes_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = tmp_path / "threaded.py"
    app.write_text(
        "import threading\nfrom jobforge import JobForge\njf = JobForge()\n"
        "threading.Thread(target=threading.Event().wait, name='busy', daemon=True).start()\n",
        encoding="utf-8",
    )

    async def open_and_close() -> None:
        runner = ProcessRunner(str(app), RecordingHost(), environment=os.environ)
        await runner.open()
        await runner.close()

    asyncio.run(open_and_close())
    assert "zygote.has_threads" in caplog.text
    assert "busy" in caplog.text


def test_a_system_without_process_isolation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_runner, "sys", type("sys", (), {"platform": "win32"}))
    with pytest.raises(ConfigError, match="win32"):
        asyncio.run(_open(APP))


async def _open(target: str) -> None:
    await ProcessRunner(target, RecordingHost(), environment=os.environ).open()


def test_closing_the_runner_ends_running_jobs() -> None:
    rig = IsolationRig()

    async def started() -> StartedJob:
        return await rig.start("wait_blindly").wait_for_note()

    job = rig.run_in_loop(started())
    zygote = rig.runner.zygote_pid
    assert zygote is not None
    rig.run_in_loop(rig.runner.close())
    assert outcome(rig.run_in_loop(job.report())) is Outcome.RELEASED
    wait_until(lambda: not live_processes_of(job.mark))
    assert not is_alive(zygote)
    rig.loop.close()


def test_jobs_of_a_dead_zygote_have_crashed_and_later_jobs_run(rig: IsolationRig) -> None:
    async def killed() -> tuple[StartedJob, Report]:
        started = await rig.start("multiply", processes=3).wait_for_note()
        assert rig.runner.zygote_pid is not None
        os.kill(rig.runner.zygote_pid, signal.SIGKILL)
        return started, await started.report()

    started, report = rig.run_in_loop(killed())
    assert outcome(report) is Outcome.CRASHED
    assert error(report)["message"] == "The process that forks jobs has exited"
    wait_until(lambda: not live_processes_of(started.mark))
    assert rig.result("add", a=1, b=1) == 2


def test_a_zygote_that_is_stopped_by_a_signal_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zygote_client, "_CHECK_INTERVAL_S", 0.1)
    monkeypatch.setattr(zygote_client, "_MAX_MISSED_CHECKS", 1_000)
    rig = IsolationRig()
    before = rig.runner.zygote_pid
    assert before is not None
    os.kill(before, signal.SIGSTOP)
    assert rig.result("add", a=1, b=1) == 2
    assert rig.runner.zygote_pid == before
    rig.close()


def test_an_unresponsive_zygote_is_killed_and_the_next_one_runs_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zygote_client, "_CHECK_INTERVAL_S", 0.1)
    monkeypatch.setattr(zygote_client, "_MAX_MISSED_CHECKS", 1_000)
    rig = IsolationRig()

    async def stopped() -> Report:
        started = await rig.start("wait_blindly").wait_for_note()
        assert rig.runner.zygote_pid is not None
        os.kill(rig.runner.zygote_pid, signal.SIGSTOP)
        monkeypatch.setattr(zygote_client, "_MAX_MISSED_CHECKS", 1)
        started.stop(StopReason.CANCEL)
        return await started.report()

    report = rig.run_in_loop(stopped())
    monkeypatch.undo()
    assert outcome(report) is Outcome.CANCELED
    assert rig.result("add", a=1, b=1) == 2
    rig.close()


def test_a_job_that_waits_for_the_next_zygote_can_be_stopped(rig: IsolationRig) -> None:
    async def stopped() -> tuple[Report, Report]:
        first = await rig.start("wait_blindly").wait_for_note()
        assert rig.runner.zygote_pid is not None
        os.kill(rig.runner.zygote_pid, signal.SIGKILL)
        await first.report()
        second = rig.start("wait_blindly")
        second.stop(StopReason.CANCEL)
        return await first.report(), await second.report()

    first, second = rig.run_in_loop(stopped())
    assert outcome(first) is Outcome.CRASHED
    assert outcome(second) is Outcome.CANCELED
    assert second.pid is None


def test_no_process_survives_a_killed_worker() -> None:
    with _script("isolated_worker.py", APP) as it:
        assert it.stdout is not None
        zygote, mark = it.stdout.readline().split()
        assert is_alive(int(zygote))
        living = live_processes_of(mark)
        assert len(living) == 4
        folder = Path(f"/proc/{living.pop()}/cwd").readlink().parent
        it.kill()
    wait_until(lambda: not is_alive(int(zygote)) and not live_processes_of(mark))
    assert not folder.exists()


def test_a_worker_killed_during_the_import_of_the_app_leaves_no_process(tmp_path: Path) -> None:
    fifo = tmp_path / "importing"
    os.mkfifo(fifo)
    app = tmp_path / "slow.py"
    app.write_text(
        "import os, signal\n"
        f"with open({str(fifo)!r}, 'w') as file: file.write(str(os.getpid()))\n"
        "signal.pause()\n",
        encoding="utf-8",
    )
    with _script("isolated_worker.py", str(app)) as it:
        zygote = int(fifo.read_text(encoding="ascii"))
        assert is_alive(zygote)
        it.kill()
    wait_until(lambda: not is_alive(zygote))


def _open_fifo(fifo: Path) -> BinaryIO:
    """Open for reading and writing, so that the open does not wait for a peer."""
    return os.fdopen(os.open(fifo, os.O_RDWR), "r+b", buffering=0)


@contextmanager
def _script(name: str, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """Run the script; kill it at the end, also when the test fails."""
    script = Path(__file__).with_name(name)
    with subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(script.parents[1])},
    ) as process:
        try:
            yield process
        finally:
            process.kill()
