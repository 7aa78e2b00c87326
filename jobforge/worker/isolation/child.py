"""The job's process, from the fork to the exit.

It receives its job over the socket, runs the handler, sends the verdict over the same socket, and
exits. It has no connection to the database; it sends requests to the worker instead.

Code that runs before the handler uses imported names instead of module attributes: in a new fork
the first access to a module's dictionary copies pages.
"""

import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from importlib import import_module
from os import chdir, close, dup2, getpid, getppid, mkdir, setsid
from signal import default_int_handler
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from jobforge.errors import Invalid, NotCommitted
from jobforge.observability import tracing
from jobforge.payloads.signature import Arguments
from jobforge.payloads.size import RESULT_LIMIT, fits
from jobforge.redact import CURRENT_SCOPE, job_scope
from jobforge.sdk import verdict
from jobforge.sdk.call_context import set_process_channel
from jobforge.sdk.command import Command
from jobforge.sdk.context import Context
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import DefinitionSettings, ProcessLimits
from jobforge.sdk.lifecycle import ProcessHooks
from jobforge.sdk.outcome_exceptions import Cancelled
from jobforge.sdk.verdict import Verdict
from jobforge.types.jsonb import encode, replace_unencodable
from jobforge.worker.isolation import limits
from jobforge.worker.isolation.channel import EX_SOFTWARE, SocketChannel
from jobforge.worker.isolation.environment import explain_missing_variable, write_mark
from jobforge.worker.isolation.frames import FrameKind, encode_frame
from jobforge.worker.isolation.limits import (
    Rlimits,
    apply_rlimits,
    die_with_parent,
    unhide,
    volunteer_for_oom,
)

if TYPE_CHECKING:
    import asyncio

    from jobforge.worker.isolation.landlock import Landlock
    from jobforge.worker.isolation.sandbox import Sandbox

Definitions = Mapping[str, Definition[..., Any]]

_STOP_MESSAGE = "The job was asked to stop"


# The C function behind signal.signal, and plain signal numbers: signal.signal converts enums, and
# every object that a new fork touches is a page to copy.
set_signal: Callable[[int, Any], object] = import_module("_signal").signal
_SIGUSR1, _SIGTERM, _SIGINT, _SIGHUP = (
    int(number) for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
)
_SIGKILL = int(signal.SIGKILL)
set_mask: Callable[[int, Collection[int]], object] = import_module("_signal").pthread_sigmask
# The zygote blocks SIGTERM, so that one sent before the child installs its handler is not lost.
_BLOCKED_SIGNALS = (_SIGTERM,)
_SIG_UNBLOCK = int(signal.SIG_UNBLOCK)
SIGCHLD, SIGUSR2, SIG_DFL = int(signal.SIGCHLD), int(signal.SIGUSR2), int(signal.SIG_DFL)


# What `become_job` needs: the parent's process ID, the job's folder, its mark as encoded by
# environment.py, its limits, its sandbox and its Landlock domain.
ChildSetup = tuple[int, str, bytes, Rlimits, "Sandbox | None", "Landlock"]


def become_job(setup: ChildSetup, stdout: int, stderr: int) -> None:
    """Set up a new fork for its job: session, output, folder, sandbox, Landlock and limits."""
    parent, folder, mark, rlimits, sandbox, landlock = setup
    write_mark(mark)
    setsid()
    die_with_parent(_SIGKILL)
    # The parent died before die_with_parent took effect. In a PID namespace getppid cannot show
    # this; there the kernel kills the job when the namespace's keeper ends.
    if getppid() != parent and (sandbox is None or sandbox.slot is None):
        os._exit(EX_SOFTWARE)
    # Without this a process that is not root's could not read its own files in /proc.
    unhide()
    volunteer_for_oom()
    dup2(stdout, 1)
    dup2(stderr, 2)
    close(stdout)
    close(stderr)
    try:
        mkdir(folder, 0o700)  # noqa: PTH102 - cheaper than a Path for every job
    except FileNotFoundError:
        # A cleaner of old temporary files, such as systemd-tmpfiles, has removed the parent folder.
        os.makedirs(folder, 0o700)  # noqa: PTH103 - cheaper than a Path for every job
    if sandbox is not None:
        sandbox.enter(folder)
        # A change of the user ID resets both in the kernel.
        die_with_parent(_SIGKILL)
        unhide()
    chdir(folder)
    landlock.enter(has_mounts=sandbox is not None and sandbox.has_mounts)
    _reseed()
    apply_rlimits(rlimits)


def run_job(
    definitions: Definitions,
    control: int,
    allowed: ProcessLimits,
    process_hooks: ProcessHooks | None = None,
) -> int:
    """Run the job that arrives on the socket; return the exit code of this process."""
    channel = SocketChannel(control)
    try:
        job_verdict = _receive_and_run(definitions, channel, allowed, process_hooks)
    except MemoryError as error:
        # Raised before the handler, for example by a payload that exceeds the memory limit.
        limits.raise_memory_limit()
        job_verdict = verdict.verdict_from_error(error, DefinitionSettings("_"))
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - contextlib.suppress is more pages to copy in a new fork
            stream.flush()
        except Exception:  # noqa: BLE001, S110 - the handler may have closed or replaced it
            pass
    channel.send(FrameKind.VERDICT, _encode_verdict(job_verdict, channel))
    tracing.flush_job()
    return 0


def _receive_and_run(
    definitions: Definitions,
    channel: SocketChannel,
    allowed: ProcessLimits,
    process_hooks: ProcessHooks | None,
) -> Verdict:
    job, worker_id = channel.receive_job()
    CURRENT_SCOPE.set(job_scope(job.payload_json))
    definition = definitions[job.definition]
    ctx = Context(job, channel, worker_id)
    tracing.enter_job(job, channel.send_span)
    if isinstance(definition, Command):
        return _become_command(definition, ctx, allowed)
    set_process_channel(channel)
    return _run_handler(definition, ctx, channel, process_hooks)


def _run_handler(
    definition: Definition[..., Any],
    ctx: Context,
    channel: SocketChannel,
    process_hooks: ProcessHooks | None,
) -> Verdict:
    stopper = Stopper(ctx, channel)
    stopper.install()
    try:
        arguments = definition.parse_arguments_json(ctx.version, ctx.payload_json)
        if process_hooks is None:
            result = _invoke(definition, ctx, arguments, stopper)
        else:
            with process_hooks.run_around():
                result = _invoke(definition, ctx, arguments, stopper)
        stopper.end()
        if ctx.was_completed:
            raise NotCommitted  # noqa: TRY301 - handled like an error of the handler
        return _dump_result(definition, result)
    except MemoryError as error:
        limits.raise_memory_limit()
        return verdict.verdict_from_error(error, definition.settings)
    except BaseException as error:  # noqa: BLE001 - any error is the outcome of the attempt
        if ctx.is_stop_requested:
            error = _translate_cancellation(error)
        return _verdict_with_hint(error, definition.settings)
    finally:
        stopper.end()


def _verdict_with_hint(error: BaseException, settings: DefinitionSettings) -> Verdict:
    """Return the verdict; if a variable is missing, say which setting passes it on."""
    job_verdict = verdict.verdict_from_error(error, settings)
    hint = explain_missing_variable(error)
    if hint is None or job_verdict.error is None:
        return job_verdict
    document = {**job_verdict.error, "hint": hint}
    # Everything that shows an error shows its traceback.
    document["traceback"] = f"{document.get('traceback', '')}Hint: {hint}\n"
    return replace(job_verdict, error=document)


def _translate_cancellation(error: BaseException) -> BaseException:
    """Return Cancelled for asyncio.CancelledError, which a stop raises in an async handler."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and isinstance(error, asyncio.CancelledError):
        return Cancelled(_STOP_MESSAGE).with_traceback(error.__traceback__)
    return error


def _dump_result(definition: Definition[..., Any], result: Any) -> Verdict:  # noqa: ANN401 - any handler result
    if result is None:
        return _EMPTY_VERDICT
    try:
        return verdict.verdict_from_result(definition.dump(result))
    except Invalid as error:
        return verdict.verdict_from_invalid_result(error)


def _invoke(
    definition: Definition[..., Any], ctx: Context, arguments: Arguments, stopper: "Stopper"
) -> Any:  # noqa: ANN401 - any handler result
    if definition.is_async:
        return _load_async_handler().run_handler(definition, ctx, arguments, stopper)
    if definition.start_hooks:
        _load_async_handler().run_start_hooks(definition, ctx)
    stopper.begin()
    return definition.invoke(ctx, arguments)


def _load_async_handler() -> ModuleType:
    from jobforge.worker.isolation import async_handler  # noqa: PLC0415 - it imports asyncio, which costs every fork

    return async_handler


class Stopper:
    """Translates the worker's stop signals for the handler.

    SIGUSR1 requests a stop, which the handler can see in its context. SIGTERM then cancels a
    handler that has not seen the request; a handler that has seen it is left to finish. SIGTERM
    without a stop request does not come from the worker, but for example from a service manager
    that signals all of the worker's processes, and is ignored.
    """

    def __init__(self, ctx: Context, channel: SocketChannel) -> None:
        self._ctx = ctx
        self._channel = channel
        self._task: asyncio.Task[Any] | None = None  # of an async handler
        self._is_running = False
        self._pid = getpid()

    def install(self) -> None:
        set_signal(_SIGUSR1, self._handle_stop_request)
        set_signal(_SIGTERM, self._handle_terminate)
        set_mask(_SIG_UNBLOCK, _BLOCKED_SIGNALS)
        # The zygote ignores these signals, and programs that the handler runs would inherit that.
        set_signal(_SIGINT, default_int_handler)
        set_signal(_SIGHUP, SIG_DFL)

    def begin(self, task: "asyncio.Task[Any] | None" = None) -> None:
        self._task = task
        self._is_running = True

    def end(self) -> None:
        self._is_running = False

    def _handle_stop_request(self, _number: int, _frame: FrameType | None) -> None:
        self._ctx.request_stop()

    def _handle_terminate(self, number: int, _frame: FrameType | None) -> None:
        if getpid() != self._pid:
            # This process is a fork of the job's process. multiprocessing terminates its forks by
            # SIGTERM.
            set_signal(number, SIG_DFL)
            os.kill(getpid(), number)
        if (
            not self._is_running
            or not self._ctx.is_stop_requested
            or self._ctx.has_seen_stop_request
        ):
            return
        if self._task is not None:
            # Thread-safe, because a call from a signal handler has to wake the loop.
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        elif self._channel.is_busy:
            self._channel.was_interrupted = True
        else:
            raise Cancelled(_STOP_MESSAGE)


def _become_command(command: Command, ctx: Context, allowed: ProcessLimits) -> Verdict:
    """Execute the command's program in this process; return only if it could not be started."""
    from shutil import which  # noqa: PLC0415 - the zygote imports it if there are commands

    try:
        argv = command.render(command.parse_arguments_json(ctx.version, ctx.payload_json))
        if command.start_hooks:
            _load_async_handler().run_start_hooks(command, ctx)
    except Invalid as error:
        return verdict.verdict_from_error(error, command.settings)
    program = which(argv[0])
    if program is None:
        return command.verdict_from_start_error(FileNotFoundError(f"Program '{argv[0]}' not found"))
    if ctx.traceparent is not None:
        os.environ["TRACEPARENT"] = ctx.traceparent
    # Restore the defaults that a program expects: Python ignores the first two, the zygote the
    # last three.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    set_mask(_SIG_UNBLOCK, _BLOCKED_SIGNALS)
    limits.apply_to_program(allowed)
    try:
        os.execv(program, argv)
    except (OSError, ValueError) as error:
        limits.raise_memory_limit()
        return command.verdict_from_start_error(error)


def _encode_verdict(job_verdict: Verdict, channel: SocketChannel) -> bytes:
    """Encode the verdict; replace a result that jsonb cannot store by a failure that says so.

    Sends a large result first, in separate frames.
    """
    if job_verdict is _EMPTY_VERDICT:
        return _EMPTY_VERDICT_BODY
    try:
        text = encode(job_verdict.to_json(), "result")
        if job_verdict.result is not None and not fits(text, RESULT_LIMIT):
            # Too large for a row: send it separately, so that the worker uploads the bytes as is.
            channel.send_document(FrameKind.RESULT, encode(job_verdict.result, "result").encode())
            text = encode(replace(job_verdict, result=None).to_json(), "result")
        body = text.encode()
        encode_frame(FrameKind.VERDICT, body)
    except Invalid as error:
        if job_verdict.error is None and job_verdict.reason is None:
            job_verdict = verdict.verdict_from_invalid_result(error)
        else:
            job_verdict = replace(
                job_verdict,
                error=replace_unencodable(job_verdict.error),
                reason=replace_unencodable(job_verdict.reason),
            )
        body = encode(job_verdict.to_json(), "result").encode()
    return body


# The most common verdict, encoded once before any fork.
_EMPTY_VERDICT = verdict.verdict_from_result(None)
_EMPTY_VERDICT_BODY = encode(_EMPTY_VERDICT.to_json(), "result").encode()


def _reseed() -> None:
    # Python reseeds its own generator after a fork; numpy does not.
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
