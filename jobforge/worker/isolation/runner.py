"""Run each job in a separate process: `isolation="process"`.

Owns all job processes of this worker. The zygote forks them (zygote_client.py); job_process.py
handles a single one.
"""

import asyncio
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from jobforge.config.settings import JOB_PROCESSES, JOB_USER_RANGE
from jobforge.errors import ConfigError, Invalid, Json
from jobforge.observability import tracing
from jobforge.observability.metrics import Meters
from jobforge.process.hardening import forbid_inspection
from jobforge.sdk.command import Command
from jobforge.sdk.definition import Definition
from jobforge.sdk.verdict import Verdict
from jobforge.types.jobs import ClaimedJob, Outcome
from jobforge.worker.isolation import proc
from jobforge.worker.isolation.frames import MAX_FRAME_BYTES, ChildExit, ZygoteRequest
from jobforge.worker.isolation.job_process import JobProcess, crashed_verdict
from jobforge.worker.isolation.zygote_client import ZygoteClient, ZygoteSettings
from jobforge.worker.runner_protocol import JobServices, OnEnd, Report, StopReason

_ZYGOTE_DIED = "The process that forks jobs has exited"


class ProcessRunner:
    """The runner of process isolation. `target` names the app, in the format of sdk/loader.py."""

    def __init__(  # noqa: PLR0913 - one parameter for each setting of a worker
        self,
        target: str,
        services: JobServices,
        *,
        environment: Mapping[str, str],
        job_environment: Sequence[str] = (),
        secret_files: Sequence[Path] = (),
        commands: Mapping[str, Mapping[str, Json]] | None = None,
        allowed_commands: Collection[str] = (),
        result_limit: int = MAX_FRAME_BYTES,
        isolation_level: str = "auto",
        job_user_range: tuple[int, int] = JOB_USER_RANGE,
        job_processes: int = JOB_PROCESSES,
        meters: Meters | None = None,
    ) -> None:
        self._services = services
        self._allowed_commands = allowed_commands
        self._result_limit = result_limit
        self._meters = meters or Meters()
        self._processes: dict[int, JobProcess] = {}
        self._last = 0
        is_traced = tracing.is_enabled()
        settings = ZygoteSettings(
            *(target, environment, job_environment, secret_files, commands or {}, is_traced),
            *(isolation_level, job_user_range, job_processes),
        )
        self._zygote = ZygoteClient(
            settings, on_exit=self._on_child_exit, on_lost=self._on_zygote_lost
        )

    async def open(self) -> None:
        """Start the zygote.

        Raises ConfigError if the app cannot be imported, or on an unsupported platform.
        """
        if sys.platform not in {"linux", "darwin"}:
            raise ConfigError(
                f"Jobs cannot run in separate processes on {sys.platform}",
                hint='Run the worker on Linux or macOS, or set isolation="inline" for its jobs',
            )
        # Jobs may run as the same user, and must not read the database password in this process.
        forbid_inspection()
        await self._zygote.open()

    async def close(self) -> None:
        """Kill all processes; verdicts that they have not sent are lost."""
        await self._zygote.close()
        left, self._processes = self._processes, {}
        for process in left.values():
            process.stop(StopReason.SHUTDOWN)
            process.end_without_process("The worker has stopped")

    @property
    def level(self) -> str | None:
        """The isolation level in use; None before `open`."""
        return self._zygote.level

    @property
    def zygote_pid(self) -> int | None:
        return self._zygote.pid

    def start(
        self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd
    ) -> JobProcess | Report:
        if (
            isinstance(definition, Command)
            and definition.settings.key not in self._allowed_commands
        ):
            return Report(_command_denied(definition))
        self._last += 1
        process = JobProcess(
            *(self._last, job, definition, self._services, on_end, self._send, self._result_limit)
        )
        try:
            fds = process.begin()
        except (OSError, Invalid) as error:  # out of file descriptors, or the payload is too large
            return Report(crashed_verdict(f"Could not be started: {error}"))
        self._processes[process.number] = process
        self._meters.children_started += 1
        request = ZygoteRequest.fork(process.number, definition.settings.limits, _format_mark(job))
        self._zygote.send(request, fds)
        return process

    def _send(self, request: ZygoteRequest) -> None:
        if self._zygote.withdraw(request.run):
            # Deferred, because the caller of `stop` may be iterating over all runs.
            asyncio.get_running_loop().call_soon(self._end_unsent, request.run)
        else:
            self._zygote.send(request)

    def _end_unsent(self, number: int) -> None:
        process = self._processes.pop(number, None)
        if process is not None:
            process.end_without_process("Never started")

    def _on_child_exit(self, ended: ChildExit) -> None:
        self._meters.children_killed += ended.pid != 0 and os.WIFSIGNALED(ended.status)
        process = self._processes.pop(ended.run, None)
        if process is not None:
            process.end(ended)

    def _on_zygote_lost(self) -> None:
        """Report all runs that the zygote had started.

        Its children died with it; kill their descendants, which may have survived.
        """
        lost = [
            each for each in self._processes.values() if not self._zygote.has_unsent(each.number)
        ]
        if not lost:
            return
        marks = [_format_mark(process.job) for process in lost]
        proc.kill_all(lambda: proc.find_marked(marks))
        for process in lost:
            del self._processes[process.number]
            process.end_without_process(_ZYGOTE_DIED)


def _format_mark(job: ClaimedJob) -> str:
    """Return the mark that every process of the job has in its environment."""
    return f"{job.job_id}.{job.lease}"


def _command_denied(command: Command) -> Verdict:
    message = f"The worker's configuration does not allow the command '{command.settings.key}'"
    return Verdict(Outcome.FAILED, error={"type": "Denied", "message": message})
