"""Durable steps, waits and children of a job: the part of `ctx` that spans its attempts.

A step's result is stored before the handler continues, and later attempts read it from the store. A
wait ends the attempt and frees its slot; the next attempt reaches the same call and continues. The
runners store steps; the engine decides when a wait ends.
"""

import sys
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from inspect import isawaitable, iscoroutine
from typing import Any, Literal, ParamSpec, TypeVar, overload
from uuid import UUID

from jobforge.errors import (
    ChildFailed,
    Conflict,
    EventTimeout,
    Invalid,
    InvalidResult,
    JobFailed,
    Json,
)
from jobforge.observability import tracing
from jobforge.sdk.duration import Duration
from jobforge.sdk.enqueue import Args, Enqueuer
from jobforge.sdk.handle import EndedJob, Handle
from jobforge.sdk.step_log import (
    ReceivedEvent,
    Results,
    Scalar,
    StepKey,
    StepLog,
    is_async,
    read_return_shape,
    serialize_result,
    suspend_for_event,
    suspend_for_jobs,
    suspend_for_sleep,
)
from jobforge.sdk.worker_requests import EnqueueChildren, JobChannel, SaveStep, read_enqueued
from jobforge.types.jobs import ClaimedJob, Enqueued, JobRequest, State

P = ParamSpec("P")
R = TypeVar("R")


class NoOpAwaitable:
    """The value of an operation that has completed, which async handlers may await."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


NO_OP = NoOpAwaitable()


class DurableContext:
    """Steps, waits and child jobs of the running job; see docs/steps.md."""

    __slots__ = ("_channel", "_job", "_loaded_steps")

    def __init__(self, job: ClaimedJob, channel: JobChannel) -> None:
        self._job = job
        self._channel = channel
        self._loaded_steps: StepLog | None = None  # parsed on first use: most jobs have no steps

    @property
    def _steps(self) -> StepLog:
        if self._loaded_steps is None:
            self._loaded_steps = StepLog(self._job.steps_json)
        return self._loaded_steps

    @overload
    def step(
        self,
        name: str,
        function: Callable[P, Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def step(
        self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the function once per job, and store its result before returning it.

        Later attempts return the stored result. In an async handler, pass an async function and
        await the call; `astep` also accepts sync functions.
        """
        if is_async(function):
            return self.astep(name, function, *args, **kwargs)
        if _is_in_loop():
            raise Invalid(
                f"Step '{name}': the function is not async and would block the loop; await astep",
                field="function",
            )
        key = self._steps.next_key("step", name)
        shape = read_return_shape(function)
        if key in self._steps:
            return shape.read(self._steps[key])
        with tracing.step_span(key.name, key.index):
            result = function(*args, **kwargs)
            if iscoroutine(result):
                result.close()
                raise Invalid(
                    f"Step '{name}': an async function requires an async handler", field="function"
                )
            document = serialize_result(key, shape, result)
            self._channel.request(SaveStep(key.name, key.index, document))
        return shape.read(document)

    @overload
    def astep(
        self,
        name: str,
        function: Callable[P, Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def astep(
        self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    def astep(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Like `step`, but must be awaited. Runs a sync function in a thread."""
        # Assign the index when astep is called: the order of awaiting may vary.
        key = self._steps.next_key("step", name)
        return self._astep(key, function, args, kwargs)

    async def _astep(
        self,
        key: StepKey,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401 - the function's result
        shape = read_return_shape(function)
        if key in self._steps:
            return shape.read(self._steps[key])
        with tracing.step_span(key.name, key.index):
            if is_async(function):
                result = await function(*args, **kwargs)
            else:
                import asyncio  # noqa: PLC0415 - keeps asyncio out of zygotes, see worker/isolation/async_handler.py

                result = await asyncio.to_thread(function, *args, **kwargs)
                if isawaitable(result):  # such as from a lambda that returns a coroutine
                    result = await result
            document = serialize_result(key, shape, result)
            await self._channel.request_async(SaveStep(key.name, key.index, document))
        return shape.read(document)

    def sleep(self, duration: Duration) -> NoOpAwaitable:
        """Suspend the job for this duration. It uses no slot and resumes in a new attempt."""
        key = self._steps.next_key("sleep", "sleep")
        if key not in self._steps:
            raise suspend_for_sleep(key, duration)
        return NO_OP

    def sleep_until(self, moment: datetime) -> NoOpAwaitable:
        """Like `sleep`, until a datetime with a time zone."""
        key = self._steps.next_key("sleep", "sleep")
        if key not in self._steps:
            raise suspend_for_sleep(key, moment)
        return NO_OP

    def wait_for_event(
        self,
        name: str,
        match: Mapping[str, Scalar] | None = None,
        *,
        timeout: Duration,
        since: datetime | None = None,
    ) -> ReceivedEvent:
        """Wait for an event with this name whose data has the values in `match`, and return it.

        `match` maps paths to values: `{"order.id": 7}`. By default, any event emitted since the job
        was created can match, even if it was emitted while the job was queued. With `since`, only
        events emitted after that time can match. Each event ends one wait of the job. The job
        uses no slot while it waits. Raises EventTimeout.
        """
        key = self._steps.next_key("event", name)
        if key not in self._steps:
            raise suspend_for_event(key, match, timeout, since)
        event = self._steps[key]
        if event is None:
            raise EventTimeout(f"Event '{name}' did not arrive in time", detail={"event": name})
        return ReceivedEvent(UUID(event["id"]), name, event["data"])

    def enqueue(
        self, definition: Enqueuer[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]:
        """Enqueue a child job of this definition, once for all attempts of this job."""
        job = definition.args(*args, **kwargs)
        key = self._steps.next_key("enqueue", job.request.definition)
        (handle,) = self._handles(definition, self._enqueue_children(key, [job.request]))
        return handle

    async def aenqueue(
        self, definition: Enqueuer[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]:
        """Like `enqueue`, for async code."""
        job = definition.args(*args, **kwargs)
        key = self._steps.next_key("enqueue", job.request.definition)
        (handle,) = self._handles(definition, await self._aenqueue_children(key, [job.request]))
        return handle

    def enqueue_many(
        self, definition: Enqueuer[P, R], jobs: Iterable[Args[P, R]]
    ) -> list[Handle[R]]:
        """Like `enqueue`, for jobs from `definition.args(…)`: all or none, as one step."""
        requests = definition.build_requests(jobs)
        key = self._steps.next_key("enqueue", definition.key)
        return self._handles(definition, self._enqueue_children(key, requests))

    async def aenqueue_many(
        self, definition: Enqueuer[P, R], jobs: Iterable[Args[P, R]]
    ) -> list[Handle[R]]:
        """Like `enqueue_many`, for async code."""
        requests = definition.build_requests(jobs)
        key = self._steps.next_key("enqueue", definition.key)
        return self._handles(definition, await self._aenqueue_children(key, requests))

    def _enqueue_children(self, key: StepKey, requests: Sequence[JobRequest]) -> list[Enqueued]:
        if key in self._steps:
            return read_enqueued(self._steps[key])
        return self._channel.request(_build_children_request(key, requests))

    async def _aenqueue_children(
        self, key: StepKey, requests: Sequence[JobRequest]
    ) -> list[Enqueued]:
        if key in self._steps:
            return read_enqueued(self._steps[key])
        return await self._channel.request_async(_build_children_request(key, requests))

    def _handles(self, definition: Enqueuer[P, R], jobs: Iterable[Enqueued]) -> list[Handle[R]]:
        return [definition.build_handle(self._job.tenant_id, job) for job in jobs]

    @overload
    def gather(
        self, handles: Iterable[Handle[R]], *, return_failures: Literal[False] = False
    ) -> Results[R]: ...
    @overload
    def gather(
        self, handles: Iterable[Handle[R]], *, return_failures: Literal[True]
    ) -> Results[R | ChildFailed]: ...
    def gather(self, handles: Iterable[Handle[Any]], *, return_failures: bool = False) -> Any:
        """Wait until these jobs have finished and return their results. Uses no slot while waiting.

        Raises ChildFailed for the first job that is dead or canceled. With `return_failures`, the
        ChildFailed takes the place of that job's result.
        """
        handles = list(handles)
        if not handles:
            return Results()
        if any(handle.id == self._job.job_id for handle in handles):
            raise Invalid("A job cannot gather itself", field="handles")
        key = self._steps.next_key("gather", "gather")
        if key not in self._steps:
            raise suspend_for_jobs(key, [handle.id for handle in handles])
        stored = self._steps[key]
        if isinstance(stored, dict):
            raise InvalidResult(
                f"The outcomes of {len(handles)} jobs have more than 8 MiB of JSON text, the limit"
                " of a gather",
                field="handles",
            )
        ended = {each["job_id"]: each for each in stored}
        results = [_read_child_result(handle, ended.get(str(handle.id))) for handle in handles]
        if not return_failures:
            for result in results:
                if isinstance(result, ChildFailed):
                    raise result
        return Results(results)


def _build_children_request(key: StepKey, requests: Sequence[JobRequest]) -> EnqueueChildren:
    return EnqueueChildren(key.name, key.index, tracing.attach_traceparent(requests))


def _is_in_loop() -> bool:
    # When asyncio was never imported, no loop can be running.
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - get_running_loop raises without a loop


def _read_child_result(handle: Handle[R], ended: dict[str, Json] | None) -> R | ChildFailed:
    if ended is None:
        raise Conflict(f"Job {handle.id} is not among the jobs of this gather")
    child = EndedJob(
        handle.id,
        ended["definition"],
        ended["state"] and State(ended["state"]),
        ended["result"],
        ended["error"],
        ended["reason"],
    )
    try:
        return handle.read_result(child, child.result)
    except JobFailed as failure:
        return ChildFailed(failure.message, detail=failure.detail)
