"""The worker's end of one job's process: its frames, its output, and how to stop it.

The zygote is the parent of the process and reports its exit; the process sends frames over a
socket. The report combines both.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeVar

import orjson

from jobforge.errors import Json
from jobforge.observability import tracing
from jobforge.redact import RedactionScope, job_scope, redact, redact_text
from jobforge.redact.background import LARGE, run_off_loop
from jobforge.sdk.command import Command
from jobforge.sdk.definition import Definition
from jobforge.sdk.verdict import Limit, ProcessExit, Verdict, verdict_from_exit
from jobforge.sdk.worker_requests import WorkerRequest
from jobforge.types.jobs import ClaimedJob, Outcome
from jobforge.types.jsonb import decode
from jobforge.worker.isolation.channel import (
    MAX_NOTE_BYTES,
    GetSecret,
    decode_request,
    encode_error,
    encode_job,
    encode_response,
)
from jobforge.worker.isolation.frames import (
    MAX_FRAME_BYTES,
    ChildExit,
    ExceededLimit,
    FrameDecoder,
    FrameKind,
    InvalidFrame,
    Op,
    ZygoteRequest,
)
from jobforge.worker.isolation.output_tail import OutputTail
from jobforge.worker.runner_protocol import JobServices, OnEnd, Report, StopReason

# The bytes to read at a time, so that one job's output does not block the others.
_READ = 65_536
# The most to read from a pipe after the process has ended: the maximum size of a pipe on Linux.
_MAX_PIPE_BYTES = 1024**2
# The time between the stop request (SIGUSR1) and SIGTERM.
_STOP_NOTICE_S = 1.0

# channel.py sends one request at a time, so only code that bypasses it reaches this number.
_MAX_OPEN_REQUESTS = 16
_UNREAD = "Sent requests to its worker without reading the responses"

_NOTES = {"progress", "log", "event"}

T = TypeVar("T")
SendToZygote = Callable[[ZygoteRequest], None]

_LIMITS: dict[ExceededLimit, Limit] = {
    ExceededLimit.MEMORY: "memory",
    ExceededLimit.CPU: "cpu",
    ExceededLimit.FILE_SIZE: "file_size",
    ExceededLimit.PROCESSES: "processes",
}


class JobProcess:
    """A run in a separate process, from the fork to the report."""

    def __init__(  # noqa: PLR0913, PLR0917 - one parameter for each part of a run
        self,
        number: int,
        job: ClaimedJob,
        definition: Definition[..., Any],
        services: JobServices,
        on_end: OnEnd,
        send: SendToZygote,
        result_limit: int,
    ) -> None:
        self.number = number
        self.job = job
        self._definition = definition
        self._services = services
        self._on_end = on_end
        self._send = send
        self._result_limit = result_limit
        self._large_result = bytearray()
        self._scope = job_scope(job.payload_json)
        self._loop = asyncio.get_running_loop()
        self._stopped: StopReason | None = None
        self._verdict: Verdict | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._frames = FrameDecoder()
        self._unsent = bytearray()
        self._is_waiting = False  # for room in the socket
        self._control: socket.socket
        self._pipes: dict[int, OutputTail] = {}
        self._open: set[int] = set()
        self._is_closed = False

    def begin(self) -> tuple[int, int, int]:
        """Open the socket and the pipes, and send the job; return the child's descriptors."""
        job_frames = encode_job(self.job, self._services.worker_id)
        with ExitStack() as undo:
            self._control, control = socket.socketpair()
            undo.callback(control.close)
            undo.callback(self._control.close)
            stdout, stderr = (self._new_pipe(undo) for _ in range(2))
            undo.pop_all()
        self._control.setblocking(False)  # noqa: FBT003 - its only argument
        for fd in self._pipes:
            self._watch(fd, self._read_pipe, fd)
        self._watch(self._control.fileno(), self._read_control)
        self._unsent += job_frames
        self._flush()
        return control.detach(), stdout, stderr

    def _new_pipe(self, undo: ExitStack) -> int:
        parent_end, child_end = os.pipe()
        undo.callback(os.close, parent_end)
        undo.callback(os.close, child_end)
        os.set_blocking(parent_end, False)
        self._pipes[parent_end] = OutputTail()
        return child_end

    def stop(self, why: StopReason) -> None:
        if self._is_closed or (self._stopped is not None and not why.is_final):
            return
        was_stopping, self._stopped = self._stopped is not None, why
        if why.is_final:
            self._kill()
        elif not was_stopping:
            self._request_stop()

    def end(self, ended: ChildExit) -> None:
        """Report the run after the end of its process; the zygote kills leftover descendants."""
        process_exit = _exit_from_child(ended)
        if ended.pid == 0:
            self._verdict = crashed_verdict(f"Could not be forked: {os.strerror(ended.status)}")
        self._drain()
        if self._verdict is None and isinstance(self._definition, Command):
            self._verdict = self._definition.verdict_from_exit(process_exit)
        report = Report(
            verdict_from_exit(process_exit, self._stopped, self._verdict),
            exit_code=process_exit.code if process_exit.signal is None else -process_exit.signal,
            pid=ended.pid or None,
            peak_memory_bytes=ended.peak_memory_bytes or None,
            cpu_ms=ended.cpu_ms,
        )
        if sum(map(len, self._pipes.values())) <= LARGE:
            self._finish(report)
            return
        self._close()
        self._start(self._redact_and_finish(report))

    def end_without_process(self, message: str) -> None:
        """Report the run without an exit status: the process was lost or never started."""
        self._drain()
        verdict = self._verdict or crashed_verdict(message)
        self._finish(Report(verdict_from_exit(ProcessExit(), self._stopped, verdict)))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _redact_and_finish(self, report: Report) -> None:
        """Report the run; redact its large output in a thread."""
        size = sum(map(len, self._pipes.values()))
        self._deliver_report(await run_off_loop(size, self._redact_report, report))

    def _finish(self, report: Report) -> None:
        self._close()
        self._deliver_report(self._redact_report(report))

    def _redact_report(self, report: Report) -> Report:
        stdout, stderr = (tail.text(self._scope) for tail in self._pipes.values())
        verdict = report.verdict and _redact_verdict(report.verdict, self._scope)
        if verdict and isinstance(self._definition, Command):
            verdict = self._definition.add_stdout(verdict, stdout)
        return report._replace(verdict=verdict, stdout_tail=stdout, stderr_tail=stderr)

    def _deliver_report(self, report: Report) -> None:
        verdict = report.verdict
        if self._large_result and verdict and verdict.outcome is Outcome.SUCCEEDED:
            report = report._replace(large_result=bytes(self._large_result))
        self._on_end(self.job, report)

    def _close(self) -> None:
        self._is_closed = True
        for timer in self._timers:
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        for fd in [*self._open]:
            self._unwatch(fd)
        if self._is_waiting:
            self._loop.remove_writer(self._control)
        self._control.close()
        for fd in self._pipes:
            os.close(fd)

    # Stop the job.

    def _request_stop(self) -> None:
        grace_s = self._definition.settings.grace_s
        if isinstance(self._definition, Command):
            self._signal(Op.SIGNAL_GROUP, signal.SIGTERM)
        else:
            self._signal(Op.SIGNAL, signal.SIGUSR1)
            self._call_later(
                min(_STOP_NOTICE_S, grace_s / 2), self._signal, Op.SIGNAL, signal.SIGTERM
            )
        self._call_later(grace_s, self._kill)

    def _call_later(
        self, delay_s: float, callback: Callable[..., None], *arguments: object
    ) -> None:
        self._timers.append(self._loop.call_later(delay_s, callback, *arguments))

    def _signal(self, op: Op, number: signal.Signals) -> None:
        self._send(ZygoteRequest(op, self.number, number))

    def _kill(self) -> None:
        self._send(ZygoteRequest(Op.KILL, self.number))

    # Read its output and its frames.

    def _watch(self, fd: int, read: Callable[..., object], *arguments: int) -> None:
        self._open.add(fd)
        self._loop.add_reader(fd, read, *arguments)

    def _unwatch(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            self._loop.remove_reader(fd)

    def _read_pipe(self, fd: int) -> int:
        """Read from a pipe; return the number of bytes."""
        try:
            data = os.read(fd, _READ)
        except BlockingIOError:
            return 0
        if not data:
            self._unwatch(fd)
        self._pipes[fd].feed(data)
        return len(data)

    def _read_control(self) -> int:
        try:
            data = self._control.recv(_READ)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self._unwatch(self._control.fileno())
        try:
            for kind, body in self._frames.feed(data):
                self._handle_frame(kind, body)
                if self._control.fileno() not in self._open:
                    return 0
        except Exception:  # noqa: BLE001 - an invalid frame must not prevent the run's report
            self._kill_for_protocol_error()
        return len(data)

    def _kill_for_protocol_error(
        self, why: str = "Wrote to the socket that is reserved for its worker"
    ) -> None:
        """Kill the job: the data is not from channel.py, so the handler wrote to the socket."""
        self._unwatch(self._control.fileno())
        self._verdict = crashed_verdict(why)
        self._kill()

    def _drain(self) -> None:
        # A descendant may still hold the other ends: read what is there, without waiting for EOF.
        while self._control.fileno() in self._open and self._read_control():
            pass
        for fd in self._pipes:
            left = _MAX_PIPE_BYTES
            while fd in self._open and left > 0 and (count := self._read_pipe(fd)):
                left -= count

    def _handle_frame(self, kind: FrameKind, body: bytes) -> None:
        match kind:
            case FrameKind.NOTE if len(body) <= MAX_NOTE_BYTES:
                self._note(**orjson.loads(body))
            case FrameKind.VERDICT:
                self._verdict = self._verdict or Verdict.from_json(decode(body))
            case FrameKind.RESULT:
                self._append_result(body)
            case FrameKind.REQUEST if self._has_too_many_requests:
                self._kill_for_protocol_error(_UNREAD)
            case FrameKind.REQUEST:
                self._start(self._respond(decode_request(body)))
            case FrameKind.SPAN if len(body) <= MAX_NOTE_BYTES:
                tracing.receive_span(self.job.traceparent, body)
            case _:
                raise InvalidFrame

    def _append_result(self, piece: bytes) -> None:
        if len(self._large_result) + len(piece) <= self._result_limit:
            self._large_result += piece
            return
        self._large_result.clear()
        message = f"The result is larger than {self._result_limit:,} bytes"
        error = {"type": "ResultTooLarge", "message": message}
        self._verdict = Verdict(Outcome.FAILED, error=error, final=True)

    def _note(self, kind: str, data: Json) -> None:
        # The engine would reject the whole batch, with other jobs' notes, for one invalid note.
        if kind not in _NOTES or not isinstance(data, dict):
            raise InvalidFrame
        self._services.note(self.job, kind, data, self._scope)

    # Respond to its requests.

    @property
    def _has_too_many_requests(self) -> bool:
        """Whether the job sends requests without reading the responses."""
        return len(self._tasks) >= _MAX_OPEN_REQUESTS or self._is_waiting

    async def _respond(self, request: WorkerRequest[Any]) -> None:
        try:
            answer = encode_response(await self._answer(request))
        except Exception as error:  # noqa: BLE001 - any error is sent to the job
            answer = encode_error(error)
        try:
            self._write(answer)
        except InvalidFrame:
            self._kill_for_protocol_error(_UNREAD)

    async def _answer(self, request: WorkerRequest[T]) -> T | str:
        if not isinstance(request, GetSecret):
            return await self._services.request(self.job, request)
        value = self._services.secret(request.name)
        self._scope.add(value)
        return value

    def _write(self, data: bytes) -> None:
        if len(self._unsent) + len(data) > 2 * MAX_FRAME_BYTES:  # the job does not read responses
            raise InvalidFrame
        self._unsent += data
        if len(self._unsent) == len(data):
            self._flush()

    def _flush(self) -> None:
        try:
            sent = self._control.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._unsent.clear()  # the job has closed its end; the zygote reports its exit
            sent = 0
        del self._unsent[:sent]
        if bool(self._unsent) is self._is_waiting:
            return
        self._is_waiting = bool(self._unsent)
        if self._is_waiting:
            self._loop.add_writer(self._control, self._flush)
        else:
            self._loop.remove_writer(self._control)


def _exit_from_child(ended: ChildExit) -> ProcessExit:
    limit = _LIMITS.get(ended.exceeded)
    if os.WIFSIGNALED(ended.status):
        return ProcessExit(signal=os.WTERMSIG(ended.status), reason=limit)
    return ProcessExit(code=os.WEXITSTATUS(ended.status), reason=limit)


def _redact_verdict(verdict: Verdict, scope: RedactionScope) -> Verdict:
    """Redact the job's secrets in the verdict: its process may not have done so."""
    if verdict.error is None and verdict.reason is None:
        return verdict
    reason = verdict.reason and redact_text(verdict.reason, scope)
    return replace(verdict, error=redact(verdict.error, scope), reason=reason)


def crashed_verdict(message: str) -> Verdict:
    return Verdict(Outcome.CRASHED, error={"type": "Crashed", "message": message})
