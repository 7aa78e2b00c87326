"""Run one attempt in this process as a worker would: hooks, arguments, handler, verdict.

Sync handlers run in the test's thread, so they see the context variables and thread-local state
that the test has set. The worker's timeouts and resource limits do not apply.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, TypeVar, cast
from uuid import UUID

from jobforge import db
from jobforge.artifacts import Artifacts
from jobforge.config import load
from jobforge.errors import Invalid, Json, NotCommitted
from jobforge.redact import register_secret
from jobforge.sdk.call_context import TenantScope, set_process_channel
from jobforge.sdk.command import Command
from jobforge.sdk.context import Context
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import DefinitionSettings
from jobforge.sdk.hooks import Hook
from jobforge.sdk.outcome_exceptions import AttemptSuspended, Cancelled
from jobforge.sdk.verdict import (
    Verdict,
    verdict_from_error,
    verdict_from_invalid_result,
    verdict_from_result,
)
from jobforge.sdk.worker_requests import EnqueueJobs, SaveStep, WorkerRequest
from jobforge.security.secret_lookup import Secrets
from jobforge.testing.command import run_program
from jobforge.testing.event_loop import HandlerLoop
from jobforge.testing.notes import Notes
from jobforge.types.jobs import ClaimedJob, Note
from jobforge.types.workflows import Lineage
from jobforge.worker.payload_downloads import download_parent_results

T = TypeVar("T")

_NO_WORKER = UUID(int=0)
_log = logging.getLogger("jobforge")


class PlannedFailures:
    """The errors that a test planned for its next attempts, by definition key."""

    def __init__(self) -> None:
        self._planned: defaultdict[str, deque[BaseException]] = defaultdict(deque)

    def plan(self, key: str, error: BaseException, times: int) -> None:
        self._planned[key].extend([error] * times)

    def raise_planned(self, key: str) -> None:
        """Raise the error planned for this attempt, if there is one."""
        if self._planned[key]:
            raise self._planned[key].popleft()


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The verdict of a finished attempt, the exception it raised, and its notes."""

    verdict: Verdict
    exception: BaseException | None
    notes: Sequence[Note]


class AttemptChannel:
    """The channel of one attempt. It answers requests on the test's own connection."""

    def __init__(
        self,
        job: ClaimedJob,
        conn: db.Connection,
        state: "HandlerState",
        worker_id: UUID | None = None,
    ) -> None:
        self.notes: list[Note] = []
        self.tenant_id = job.tenant_id
        self._job = job
        self._worker_id = worker_id
        self._conn = conn
        self._state = state

    def note(self, kind: str, data: dict[str, Json]) -> None:
        self._state.notes.add(kind, data)
        self.notes.append(Note(*self._job.token, kind, data))

    def secret(self, name: str) -> str:
        test_secret = self._state.secrets.get(name)
        value = Secrets(load().secrets_dir).lookup(name) if test_secret is None else test_secret
        register_secret(value)
        return value

    def request(self, request: WorkerRequest[T]) -> T:
        if self._worker_id is None and not isinstance(request, EnqueueJobs):
            return _reject_without_job(request)
        call = request.build_call(self._worker_id or _NO_WORKER, self._job)
        answer: Any = db.run(self._conn, call)
        if isinstance(answer, Lineage):
            answer = download_parent_results(self._state.artifacts(), self.tenant_id, answer)
        return cast("T", answer)

    async def request_async(self, request: WorkerRequest[T]) -> T:
        return self.request(request)


@dataclass(frozen=True, slots=True)
class HandlerState:
    """What a test sets up for handlers (artifacts, secrets, failures) and the notes they write."""

    artifacts: Callable[[], Artifacts]
    notes: Notes = field(default_factory=Notes)
    secrets: dict[str, str] = field(default_factory=dict)
    failures: PlannedFailures = field(default_factory=PlannedFailures)


class AttemptRunner:
    """Calls handlers and commands in a test."""

    def __init__(self, conn: db.Connection, loop: HandlerLoop, state: HandlerState) -> None:
        self._conn = conn
        self._loop = loop
        self._state = state

    def run_attempt(
        self, definition: Definition[..., Any], job: ClaimedJob, worker_id: UUID
    ) -> AttemptResult:
        """Run one attempt of a job that the worker has claimed."""
        channel = AttemptChannel(job, self._conn, self._state, worker_id)
        ctx = Context(job, channel, worker_id)
        if isinstance(definition, Command):
            return self._run_command(definition, ctx, channel)
        try:
            result = self._call(definition, ctx, channel)
            if ctx.was_completed:
                raise NotCommitted  # noqa: TRY301 - handled like an error of the handler
        except (Exception, Cancelled, AttemptSuspended, BaseExceptionGroup) as error:  # noqa: BLE001 - the verdict classifies the error
            return AttemptResult(
                verdict_from_error(error, definition.settings), error, channel.notes
            )
        try:
            return AttemptResult(verdict_from_result(definition.dump(result)), None, channel.notes)
        except Invalid as error:
            return AttemptResult(verdict_from_invalid_result(error), error, channel.notes)

    def call_handler(
        self,
        definition: Definition[..., Any],
        tenant_id: UUID,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401 - the handler's return type
        """Call the handler for a job that is not in the database."""
        if isinstance(definition, Command):
            raise Invalid("A command has no handler to call; enqueue and drain it")
        payload = definition.parameters.build_payload(args, kwargs)
        job = definition.fake_claimed_job(payload, tenant_id)
        channel = AttemptChannel(job, self._conn, self._state)
        try:
            result = self._call(definition, Context(job, channel), channel)
        except AttemptSuspended as waiting:
            raise Invalid("A handler that waits must be enqueued and drained") from waiting
        definition.dump(result)
        return result

    def _run_command(
        self, command: Command, ctx: Context, channel: AttemptChannel
    ) -> AttemptResult:
        try:
            with self._start_attempt(command, ctx, channel):
                return AttemptResult(run_program(command, ctx), None, channel.notes)
        except Exception as error:  # noqa: BLE001 - the verdict classifies the error
            return AttemptResult(verdict_from_error(error, command.settings), error, channel.notes)

    def _call(self, definition: Definition[..., Any], ctx: Context, channel: AttemptChannel) -> Any:  # noqa: ANN401 - the handler's return type
        arguments = definition.parse_arguments_json(ctx.version, ctx.payload_json)
        with self._start_attempt(definition, ctx, channel):
            return self._await_result(definition.invoke(ctx, arguments))

    @contextmanager
    def _start_attempt(
        self, definition: Definition[..., Any], ctx: Context, channel: AttemptChannel
    ) -> Iterator[None]:
        with _enter_job(definition.settings, channel):
            for hook in definition.start_hooks:
                self._run_start_hook(hook, ctx)
            self._state.failures.raise_planned(definition.settings.key)
            yield

    def _run_start_hook(self, hook: Hook, ctx: Context) -> None:
        try:
            self._await_result(hook(ctx))
        except Exception:  # noqa: BLE001 - a failed start hook does not fail the job
            _log.exception("Hook %s failed", getattr(hook, "__qualname__", hook))

    def _await_result(self, returned: Any) -> Any:  # noqa: ANN401 - the handler's return type
        return self._loop.run(_wait_for(returned)) if isawaitable(returned) else returned


def _reject_without_job(request: WorkerRequest[T]) -> T:
    if isinstance(request, SaveStep):  # without a job there is no later attempt that needs it
        return cast("T", None)
    raise Invalid(f"{request.kind} requires a job; enqueue and drain it")


@contextmanager
def _enter_job(settings: DefinitionSettings, channel: AttemptChannel) -> Iterator[None]:
    """Set the tenant, and route enqueues of isolated jobs through the channel, as a worker does."""
    with TenantScope(channel.tenant_id):
        set_process_channel(channel if settings.isolation == "process" else None)
        try:
            yield
        finally:
            set_process_channel(None)


async def _wait_for(returned: Awaitable[T]) -> T:
    return await returned
