"""Run coroutine handlers in the worker's event loop: `isolation="inline"`.

Handlers start eagerly on a reusable placeholder Task: the first step of a handler runs at once,
with the placeholder as the current Task. If the handler finishes without waiting, the next handler
reuses the placeholder. If the handler waits, it adopts the placeholder, which then runs it like any
Task, and the next handler gets a new placeholder. So `asyncio.current_task()` and what depends on
it (timeouts, task groups) work from a handler's first line, and each job has separate context
variables.

A coroutine cannot be killed: it is canceled, and abandoned if it has not ended after its grace
period. The abandoned job's slot is released, its lease expires, and nothing it does is recorded.
"""

import asyncio
from asyncio import AbstractEventLoop, Task, TimerHandle, _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context as Variables
from contextvars import copy_context
from typing import Any, TypeVar
from uuid import UUID

from jobforge.artifacts.artifact_reference import read_artifact_ref
from jobforge.errors import Conflict, Invalid, Json, NotCommitted
from jobforge.payloads.signature import Arguments
from jobforge.redact import CURRENT_SCOPE
from jobforge.sdk.context import Context
from jobforge.sdk.definition import Definition
from jobforge.sdk.verdict import (
    verdict_from_error,
    verdict_from_invalid_result,
    verdict_from_result,
)
from jobforge.sdk.worker_requests import WorkerRequest
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob
from jobforge.worker.runner_protocol import SUCCEEDED, JobServices, OnEnd, Report, StopReason

T = TypeVar("T")
HandlerCoroutine = Coroutine[Any, Any, Report]

_CLOSING_S = 1.0
# A placeholder is replaced after this many handlers: what they attach to their current Task, such
# as done callbacks, would pile up.
_MOST_STARTS = 1_000
_NO_FUTURE = object()


class InlineRunner:
    """Runs async handlers in this process."""

    def __init__(self, services: JobServices) -> None:
        self._services = services
        self._placeholders: set[_PlaceholderTask] = set()
        self._spare_placeholder: _PlaceholderTask | None = None

    @property
    def level(self) -> None:
        """Inline jobs are not isolated."""

    async def open(self) -> None:
        """Do nothing: inline jobs need no preparation."""

    async def close(self) -> None:
        tasks = [placeholder.task for placeholder in self._placeholders]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING_S)

    def start(
        self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd
    ) -> "InlineRun | Report":
        placeholder = self._get_placeholder()
        run = InlineRun(self._services, job, definition, on_end)
        coroutine = run.run_attempt()
        variables = copy_context()
        try:
            first_future = placeholder.start_handler(coroutine, variables)
        except StopIteration as end:
            report: Report = end.value
            return report
        self._spare_placeholder = None
        placeholder.adopt_handler(run, coroutine, variables, first_future)
        return run

    def _get_placeholder(self) -> "_PlaceholderTask":
        placeholder = self._spare_placeholder
        if placeholder is not None and placeholder.is_fresh:
            return placeholder
        if placeholder is not None:
            placeholder.task.cancel()
        self._spare_placeholder = _PlaceholderTask(asyncio.get_running_loop(), self._placeholders)
        return self._spare_placeholder


class InlineRun:
    """One attempt: a Run for the worker, and the channel of the job's Context."""

    # Class attributes, because most runs end before any of these is set.
    stopped: StopReason | None = None
    task: Task[None] | None = None
    _context: Context | None = None
    _timer: TimerHandle | None = None

    def __init__(
        self,
        services: JobServices,
        job: ClaimedJob,
        definition: Definition[..., Any],
        on_end: OnEnd,
    ) -> None:
        self.job = job
        self._services = services
        self._definition = definition
        self._on_end: OnEnd | None = on_end
        self._scope = definition.build_redaction_scope(job.payload_json)

    async def run_attempt(self) -> Report:
        definition, job = self._definition, self.job
        CURRENT_JOB.set(job)  # never reset: the context variables are this run's copy
        CURRENT_SCOPE.set(self._scope)
        try:
            arguments = definition.parse_arguments_json(job.version, job.payload_json)
            if definition.needs_context:
                result = await self._with_context(arguments)
            else:
                result = await definition.function(**arguments)
        except BaseException as error:  # noqa: BLE001 - any error of a handler is its outcome
            if self.stopped is StopReason.LOST:
                return Report(None)
            return Report(verdict_from_error(error, definition.settings, self.stopped))
        if result is None:
            return SUCCEEDED
        try:
            verdict = verdict_from_result(definition.dump(result))
        except Invalid as error:
            return Report(verdict_from_invalid_result(error))
        if definition.can_create_artifacts:
            return Report(verdict, artifact_ref=read_artifact_ref(verdict.result))
        return Report(verdict)

    async def _with_context(self, arguments: Arguments) -> Any:  # noqa: ANN401 - any handler result
        definition = self._definition
        self._context = Context(self.job, self, self._services.worker_id)
        if definition.start_hooks:
            await definition.run_start_hooks(self._context)
        result = await definition.invoke(self._context, arguments)
        if self._context.was_completed:
            raise NotCommitted
        return result

    def stop(self, why: StopReason) -> None:
        if self.task is None or self._on_end is None:
            return
        if self.stopped is None:
            if self._context is not None:
                self._context.request_stop()
            loop = self.task.get_loop()
            self._timer = loop.call_later(self._definition.settings.grace_s, self._abandon)
        elif self.stopped.is_final or not why.is_final:
            return
        self.stopped = why
        self.task.cancel()

    def finish(self, report: Report) -> None:
        if self._timer is not None:
            self._timer.cancel()
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self.job, report)

    def _abandon(self) -> None:
        self.finish(Report(None))

    @property
    def tenant_id(self) -> UUID:
        return self.job.tenant_id

    def note(self, kind: str, data: dict[str, Json]) -> None:
        self._services.note(self.job, kind, data, self._scope)

    def secret(self, name: str) -> str:
        value = self._services.secret(name)
        self._scope.add(value)
        return value

    def request(self, request: WorkerRequest[T]) -> T:
        raise Conflict(
            f"Inline handlers cannot block the worker's loop ({request.kind}); await the async form"
        )

    async def request_async(self, request: WorkerRequest[T]) -> T:
        return await self._services.request(self.job, request)


class _PlaceholderTask(Coroutine[Any, Any, None]):
    """The coroutine of a placeholder Task: waits to be adopted, then runs the handler's coroutine.

    It is a class because an `async def` whose Task is canceled before its first step never runs,
    so it could not report the handler's end.
    """

    def __init__(self, loop: AbstractEventLoop, placeholders: "set[_PlaceholderTask]") -> None:
        self._loop = loop
        self._placeholders = placeholders
        self._start_count = 0
        self._run: InlineRun | None = None
        self._coroutine: HandlerCoroutine
        self._variables: Variables
        self._first_future: Any = _NO_FUTURE
        self._adopted = loop.create_future()
        self.task: Task[None] = loop.create_task(self)
        placeholders.add(self)

    @property
    def is_fresh(self) -> bool:
        """Whether the next handler can use the Task like a new one."""
        return (
            self._start_count < _MOST_STARTS and not self.task.cancelling() and not self.task.done()
        )

    def start_handler(self, coroutine: HandlerCoroutine, variables: Variables) -> Any:  # noqa: ANN401 - a future, or None
        """Run the first step and return what it waits for; StopIteration carries the report."""
        self._start_count += 1
        outer = asyncio.current_task(self._loop)
        if outer is not None:
            _leave_task(self._loop, outer)
        _enter_task(self._loop, self.task)
        try:
            return variables.run(coroutine.send, None)
        finally:
            _leave_task(self._loop, self.task)
            if outer is not None:
                _enter_task(self._loop, outer)

    def adopt_handler(
        self,
        run: InlineRun,
        coroutine: HandlerCoroutine,
        variables: Variables,
        first_future: Any,  # noqa: ANN401 - a future, or None
    ) -> None:
        self._run, self._coroutine, self._variables, self._first_future = (
            run,
            coroutine,
            variables,
            first_future,
        )
        run.task = self.task
        if not self._adopted.done():  # the handler may have canceled its Task
            self._adopted.set_result(None)

    def send(self, value: Any) -> Any:  # noqa: ANN401 - signature of Coroutine
        if self._run is None:
            return next(self._adopted.__await__())
        if self._first_future is not _NO_FUTURE:
            return self._hand_over()
        return self._resume(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:  # noqa: ANN401 - signature of Coroutine
        if self._run is None:
            self._placeholders.discard(self)
            raise error[0]
        if self._first_future is not _NO_FUTURE:
            # The Task was canceled after the handler's first step, before it could wait for the
            # handler's future. Request the cancellation again: the Task then cancels the future
            # that this returns. `uncancel` keeps the count of requests unchanged.
            self.task.uncancel()
            self.task.cancel()
            return self._hand_over()
        return self._resume(self._coroutine.throw, *error)

    def close(self) -> None:
        self._placeholders.discard(self)
        if self._run is not None:
            self._coroutine.close()

    def __await__(self) -> Generator[Any, None, None]:
        raise NotImplementedError  # only its Task runs it

    def _hand_over(self) -> Any:  # noqa: ANN401 - a future, or None
        """Return to the Task what the handler has been waiting for since its first step."""
        first_future, self._first_future = self._first_future, _NO_FUTURE
        return first_future

    def _resume(self, step: Callable[..., Any], *value: Any) -> Any:  # noqa: ANN401 - a future, or None
        try:
            return self._variables.run(step, *value)
        except StopIteration as end:
            self._placeholders.discard(self)
            if self._run is not None:
                self._run.finish(end.value)
            raise
