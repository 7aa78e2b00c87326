"""Run coroutine handlers in the worker's event loop: `isolation="inline"`.

Handlers start eagerly: the first step of a handler runs at once, and a handler that finishes
without waiting never enters the event loop.

A coroutine cannot be killed: it is canceled, and abandoned if it has not ended after its grace
period. The abandoned job's slot is released, its lease expires, and nothing it does is recorded.
"""

import asyncio
import sys
from asyncio import Task, TimerHandle
from collections.abc import Callable, Coroutine
from functools import partial
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
# Runs the first step; returns the Task that runs the rest, or None if there is none.
TaskStarter = Callable[[Coroutine[Any, Any, None]], Task[None] | None]

_CLOSING_S = 1.0


class InlineRunner:
    """Runs async handlers in this process."""

    def __init__(self, services: JobServices) -> None:
        self._services = services
        self._tasks: set[Task[None]] = set()
        self._start_task = _find_task_starter(self._tasks)

    @property
    def level(self) -> None:
        """Inline jobs are not isolated."""

    async def open(self) -> None:
        """Do nothing: inline jobs need no preparation."""

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_S)

    def start(
        self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd
    ) -> "InlineRun | Report":
        run = InlineRun(self._services, job, definition, on_end)
        task = self._start_task(run.run())
        if task is None:
            return run.report
        run.task = task
        task.add_done_callback(run.on_task_done)
        return run


class InlineRun:
    """One attempt: a Run for the worker, and the channel of the job's Context."""

    # Class attributes, because most runs end before any of these is set.
    stopped: StopReason | None = None
    report: Report = Report(None)  # the result of `run`
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

    async def run(self) -> None:
        self.report = await self._run_attempt()

    async def _run_attempt(self) -> Report:
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
            return self._report_error(error)
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

    def on_task_done(self, _: Task[None]) -> None:
        self._finish(self.report)

    def _report_error(self, error: BaseException) -> Report:
        if self.stopped is StopReason.LOST:
            return Report(None)
        return Report(verdict_from_error(error, self._definition.settings, self.stopped))

    def _finish(self, report: Report) -> None:
        if self._timer is not None:
            self._timer.cancel()
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self.job, report)

    def _abandon(self) -> None:
        self._finish(Report(None))

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


def _find_task_starter(tasks: set[Task[None]]) -> TaskStarter:
    """Return the starter for this version of Python; it adds Tasks to `tasks` until they end."""
    if sys.version_info >= (3, 12):
        return partial(_start_eagerly, tasks)
    from jobforge.worker.borrowed_task import TaskLender  # noqa: PLC0415 - only for Python 3.11

    return TaskLender(tasks).start


def _start_eagerly(
    tasks: set[Task[None]], coroutine: Coroutine[Any, Any, None]
) -> Task[None] | None:
    loop = asyncio.get_running_loop()
    task: Task[None] = Task(coroutine, loop=loop, eager_start=True)  # type: ignore[call-arg] # Python 3.12
    if task.done():
        return None
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task
