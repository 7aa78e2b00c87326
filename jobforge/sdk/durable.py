"""What a job does once in its life, however many attempts it takes: the durable half of `ctx`.

A step's result is stored before the handler goes on, and later attempts have it from the store. A
wait ends the attempt and frees its slot; the next attempt comes by the same call and goes on. How
steps are stored is left to the runners; when a wait ends, to the engine.
"""

import sys
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from inspect import isawaitable, iscoroutine
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload
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
from jobforge.types.jobs import ClaimedJob, Enqueued, EnqueueStatus, JobRequest, State

P = ParamSpec("P")
R = TypeVar("R")


class RequestChannel(Protocol):
    """How a running job asks its worker for what only the engine can do, under its lease."""

    def request(self, kind: str, data: Json) -> Json: ...

    async def request_async(self, kind: str, data: Json) -> Json: ...


class NoOpAwaitable:
    """Something that was done at once. Async handlers may await it all the same."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


NO_OP = NoOpAwaitable()


class DurableContext:
    """Steps, waits and children of the job that runs; docs/steps.md explains them."""

    __slots__ = ("_channel", "_job", "_loaded_steps")

    def __init__(self, job: ClaimedJob, channel: RequestChannel) -> None:
        self._job = job
        self._channel = channel
        self._loaded_steps: StepLog | None = None  # most jobs have none, and pay nothing for them

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
        """Calls the function, once in the life of the job: its result is stored before this
        returns, and later attempts have it from there.

        In an async handler the function is async, and this is awaited; `astep` takes others too.
        """
        if is_async(function):
            return self.astep(name, function, *args, **kwargs)
        if _is_in_loop():
            raise Invalid(
                f"step {name}: its function is not async, and would hold up the loop: await astep",
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
                    f"step {name}: an async function needs an async handler", field="function"
                )
            document = serialize_result(key, shape, result)
            self._channel.request("save_step", _to_save_json(key, document))
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
        """As `step`, to be awaited; a function that is not async runs in a thread."""
        # The turn is taken when it is called, not when it is awaited.
        key = self._steps.next_key("step", name)
        return self._astep(key, function, args, kwargs)

    async def _astep(
        self,
        key: StepKey,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401 - what the function returns
        shape = read_return_shape(function)
        if key in self._steps:
            return shape.read(self._steps[key])
        with tracing.step_span(key.name, key.index):
            if is_async(function):
                result = await function(*args, **kwargs)
            else:
                import asyncio  # noqa: PLC0415 - not in a zygote: worker/isolation/async_handler.py says why

                result = await asyncio.to_thread(function, *args, **kwargs)
                if isawaitable(result):  # as a lambda may answer
                    result = await result
            document = serialize_result(key, shape, result)
            await self._channel.request_async("save_step", _to_save_json(key, document))
        return shape.read(document)

    def sleep(self, duration: Duration) -> NoOpAwaitable:
        """The job goes on after that time, in a new attempt, and needs no slot until then."""
        key = self._steps.next_key("sleep", "sleep")
        if key not in self._steps:
            raise suspend_for_sleep(key, duration)
        return NO_OP

    def sleep_until(self, moment: datetime) -> NoOpAwaitable:
        """As `sleep`, until a moment; it needs a time zone."""
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
        """Wait for an event of that name whose data has these values, and return it.

        `match` has paths: `{"order.id": 7}`. Events emitted since the job was created count, also
        those emitted while it was still queued, or those emitted after `since`; each event ends
        one wait of the job. The job holds no slot while it waits. Raises EventTimeout.
        """
        key = self._steps.next_key("event", name)
        if key not in self._steps:
            raise suspend_for_event(key, match, timeout, since)
        found = self._steps[key]
        if found is None:
            raise EventTimeout(f"no event {name} has come in time", detail={"event": name})
        return ReceivedEvent(UUID(found["id"]), name, found["data"])

    def enqueue(
        self, definition: Enqueuer[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]:
        """A job of that definition, made once in the life of this one."""
        job = definition.args(*args, **kwargs)
        key = self._steps.next_key("enqueue", job.request.definition)
        (handle,) = self._handles(definition, self._enqueue_children(key, [job.request]))
        return handle

    async def aenqueue(
        self, definition: Enqueuer[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]:
        """As `enqueue`, for async code."""
        job = definition.args(*args, **kwargs)
        key = self._steps.next_key("enqueue", job.request.definition)
        (handle,) = self._handles(definition, await self._aenqueue_children(key, [job.request]))
        return handle

    def enqueue_many(
        self, definition: Enqueuer[P, R], jobs: Iterable[Args[P, R]]
    ) -> list[Handle[R]]:
        """As `enqueue`, for jobs that `definition.args(…)` makes: all or none, as one step."""
        requests = definition.build_requests(jobs)
        key = self._steps.next_key("enqueue", definition.key)
        return self._handles(definition, self._enqueue_children(key, requests))

    async def aenqueue_many(
        self, definition: Enqueuer[P, R], jobs: Iterable[Args[P, R]]
    ) -> list[Handle[R]]:
        """As `enqueue_many`, for async code."""
        requests = definition.build_requests(jobs)
        key = self._steps.next_key("enqueue", definition.key)
        return self._handles(definition, await self._aenqueue_children(key, requests))

    def _enqueue_children(self, key: StepKey, requests: Sequence[JobRequest]) -> Json:
        if key in self._steps:
            return self._steps[key]
        return self._channel.request("enqueue_children", _to_enqueue_json(key, requests))

    async def _aenqueue_children(self, key: StepKey, requests: Sequence[JobRequest]) -> Json:
        if key in self._steps:
            return self._steps[key]
        return await self._channel.request_async(
            "enqueue_children", _to_enqueue_json(key, requests)
        )

    def _handles(self, definition: Enqueuer[P, R], made: Json) -> list[Handle[R]]:
        jobs = [Enqueued(UUID(job_id), EnqueueStatus(status)) for job_id, status in made]
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
        """What these jobs return, once all of them have ended; this one needs no slot until then.

        ChildFailed for the first that died or was canceled; with `return_failures` it stands in
        the place of its result.
        """
        handles = list(handles)
        if not handles:
            return Results()
        if any(handle.id == self._job.job_id for handle in handles):
            raise Invalid("a job cannot gather itself", field="handles")
        key = self._steps.next_key("gather", "gather")
        if key not in self._steps:
            raise suspend_for_jobs(key, [handle.id for handle in handles])
        found = self._steps[key]
        if isinstance(found, dict):
            raise InvalidResult(
                f"what {len(handles)} jobs returned has {found['too_large']:,} bytes of JSON, and"
                " a gather takes at most 8 MiB",
                field="handles",
            )
        ended = {each["job_id"]: each for each in found}
        answers = [_read_child_result(handle, ended.get(str(handle.id))) for handle in handles]
        if not return_failures:
            for answer in answers:
                if isinstance(answer, ChildFailed):
                    raise answer
        return Results(answers)


def _to_save_json(key: StepKey, result: Json) -> Json:
    return {"name": key.name, "index": key.index, "result": result}


def _to_enqueue_json(key: StepKey, requests: Sequence[JobRequest]) -> Json:
    jobs = [request.to_json() for request in tracing.attach_traceparent(requests)]
    return {"name": key.name, "index": key.index, "jobs": jobs}


def _is_in_loop() -> bool:
    # Without asyncio nobody has a loop.
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - the public one raises without


def _read_child_result(handle: Handle[R], ended: dict[str, Json] | None) -> R | ChildFailed:
    if ended is None:
        raise Conflict(f"job {handle.id} was not among those that this gather waited for")
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
