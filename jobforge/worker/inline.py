"""Running coroutines in the worker's own loop: `isolation="inline"`.

A handler begins at once, without a Task of its own: the first step of every handler is made in the
name of one spare Task, the seat. A handler that never waits is done with that. One that waits keeps
the seat, which goes on with it as any Task would, and the next handler gets a new one. So
`asyncio.current_task()` and all that rests on it (timeouts, task groups) are right from the first
line, and context variables are each job's own.

A coroutine cannot be killed: it is cancelled, and when it has not ended by the end of its grace it
is abandoned. Its slot is free then, its lease is let run out, and nothing it does is recorded.
"""

import asyncio
from asyncio import AbstractEventLoop, Task, TimerHandle, _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context as Variables
from contextvars import copy_context
from typing import Any

from jobforge.artifacts.marker import read_artifact_ref
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
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Enqueued, JobRequest
from jobforge.worker.runner import SUCCEEDED, JobServices, OnEnd, Report, StopReason

HandlerCoroutine = Coroutine[Any, Any, Report]

_CLOSING_S = 1.0
# What handlers attach to their Task must not pile up on a seat that none of them keeps.
_MOST_STARTS = 1_000
_NO_FUTURE = object()


class InlineRunner:
    """Runs async handlers as part of this process."""

    def __init__(self, host: JobServices) -> None:
        self._host = host
        self._placeholders: set[_PlaceholderTask] = set()
        self._spare_placeholder: _PlaceholderTask | None = None

    @property
    def level(self) -> None:
        """Inline jobs are not isolated."""

    async def open(self) -> None:
        """Nothing needs to be ready before the first job."""

    async def close(self) -> None:
        tasks = [seat.task for seat in self._placeholders]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING_S)

    def start(
        self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd
    ) -> "InlineRun | Report":
        seat = self._get_placeholder()
        run = InlineRun(self._host, job, definition, on_end)
        steps = run.run_attempt()
        variables = copy_context()
        try:
            waiting = seat.start_handler(steps, variables)
        except StopIteration as end:
            report: Report = end.value
            return report
        self._spare_placeholder = None
        seat.adopt_handler(run, steps, variables, waiting)
        return run

    def _get_placeholder(self) -> "_PlaceholderTask":
        seat = self._spare_placeholder
        if seat is not None and seat.is_fresh:
            return seat
        if seat is not None:
            seat.task.cancel()
        self._spare_placeholder = _PlaceholderTask(asyncio.get_running_loop(), self._placeholders)
        return self._spare_placeholder


class InlineRun:
    """One attempt: what the worker can stop, and the channel of its context."""

    # Most runs are over before anything of this is needed.
    stopped: StopReason | None = None
    task: Task[None] | None = None
    _context: Context | None = None
    _timer: TimerHandle | None = None

    def __init__(
        self, host: JobServices, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd
    ) -> None:
        self.job = job
        self._host = host
        self._definition = definition
        self._on_end: OnEnd | None = on_end
        self._scope = definition.build_redaction_scope(job.payload_json)

    async def run_attempt(self) -> Report:
        definition, job = self._definition, self.job
        CURRENT_JOB.set(job)  # in context variables of its own, so nothing has to be put back
        CURRENT_SCOPE.set(self._scope)
        try:
            arguments = definition.parse_arguments_json(job.version, job.payload_json)
            if definition.needs_context:
                result = await self._with_context(arguments)
            else:
                result = await definition.function(**arguments)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own affair
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

    async def _with_context(self, arguments: Arguments) -> Any:  # noqa: ANN401 - its result
        definition = self._definition
        self._context = Context(self.job, self, self._host.worker_id)
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

    def note(self, kind: str, data: dict[str, Json]) -> None:
        self._host.note(self.job, kind, data, self._scope)

    def secret(self, name: str) -> str:
        value = self._host.secret(name)
        self._scope.add(value)
        return value

    def enqueue(self, jobs: Sequence[JobRequest]) -> list[Enqueued]:
        raise Conflict(f"{len(jobs)} jobs cannot be enqueued from here: await aenqueue")

    def request(self, kind: str, data: Json) -> Json:  # noqa: ARG002 - as aask
        raise Conflict(f"the worker's loop cannot wait here ({kind}): await the async form")

    async def request_async(self, kind: str, data: Json) -> Json:
        return await self._host.request(self.job, kind, data)


class _PlaceholderTask(Coroutine[Any, Any, None]):
    """What the spare Task runs: it waits to be kept, then it is that handler's coroutine.

    A class, because the Task of an `async def` that is cancelled before it has run at all ends
    without a word to anybody.
    """

    def __init__(self, loop: AbstractEventLoop, seats: "set[_PlaceholderTask]") -> None:
        self._loop = loop
        self._placeholders = seats
        self._start_count = 0
        self._run: InlineRun | None = None
        self._coroutine: HandlerCoroutine
        self._variables: Variables
        self._first_future: Any = _NO_FUTURE
        self._adopted = loop.create_future()
        self.task: Task[None] = loop.create_task(self)
        seats.add(self)

    @property
    def is_fresh(self) -> bool:
        """Whether the next handler finds it as it finds any Task."""
        return (
            self._start_count < _MOST_STARTS and not self.task.cancelling() and not self.task.done()
        )

    def start_handler(self, steps: HandlerCoroutine, variables: Variables) -> Any:  # noqa: ANN401 - a future, or None
        """The first step. Answers what it waits for; StopIteration has the report."""
        self._start_count += 1
        outer = asyncio.current_task(self._loop)
        if outer is not None:
            _leave_task(self._loop, outer)
        _enter_task(self._loop, self.task)
        try:
            return variables.run(steps.send, None)
        finally:
            _leave_task(self._loop, self.task)
            if outer is not None:
                _enter_task(self._loop, outer)

    def adopt_handler(
        self,
        run: InlineRun,
        steps: HandlerCoroutine,
        variables: Variables,
        waiting: Any,  # noqa: ANN401 - as above
    ) -> None:
        self._run, self._coroutine, self._variables, self._first_future = (
            run,
            steps,
            variables,
            waiting,
        )
        run.task = self.task
        if not self._adopted.done():  # the handler may have cancelled it
            self._adopted.set_result(None)

    def send(self, value: Any) -> Any:  # noqa: ANN401 - as coroutines do
        if self._run is None:
            return next(self._adopted.__await__())
        if self._first_future is not _NO_FUTURE:
            return self._hand_over()
        return self._resume(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:  # noqa: ANN401 - as coroutines do
        if self._run is None:
            self._placeholders.discard(self)
            raise error[0]
        if self._first_future is not _NO_FUTURE:
            # Cancelled since the handler's first step. A Task passes that on to what it waits
            # for, and does so now if it is asked again; the number of requests stays the same.
            self.task.uncancel()
            self.task.cancel()
            return self._hand_over()
        return self._resume(self._coroutine.throw, *error)

    def close(self) -> None:
        self._placeholders.discard(self)
        if self._run is not None:
            self._coroutine.close()

    def __await__(self) -> Generator[Any, None, None]:
        raise NotImplementedError  # it is a Task's alone

    def _hand_over(self) -> Any:  # noqa: ANN401 - as above
        """To the Task: what the handler has been waiting for since its first step."""
        waiting, self._first_future = self._first_future, _NO_FUTURE
        return waiting

    def _resume(self, step: Callable[..., Any], *value: Any) -> Any:  # noqa: ANN401 - as above
        try:
            return self._variables.run(step, *value)
        except StopIteration as end:
            self._placeholders.discard(self)
            if self._run is not None:
                self._run.finish(end.value)
            raise
