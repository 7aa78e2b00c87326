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
from jobforge.sdk.handle import Ended, Handle
from jobforge.sdk.step_log import (
    Event,
    Results,
    Scalar,
    StepKey,
    Steps,
    is_async,
    shape_of,
    sleeping,
    waiting_for_event,
    waiting_for_jobs,
    written,
)
from jobforge.types.jobs import ClaimedJob, Enqueued, EnqueueStatus, JobRequest, State

P = ParamSpec("P")
R = TypeVar("R")


class Channel(Protocol):
    """How a running job asks its worker for what only the engine can do, under its lease."""

    def ask(self, kind: str, data: Json) -> Json: ...

    async def aask(self, kind: str, data: Json) -> Json: ...


class Done:
    """Something that was done at once. Async handlers may await it all the same."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE = Done()


class Durable:
    """Steps, waits and children of the job that runs; docs/steps.md explains them."""

    __slots__ = ("_channel", "_job", "_known")

    def __init__(self, job: ClaimedJob, channel: Channel) -> None:
        self._job = job
        self._channel = channel
        self._known: Steps | None = None  # most jobs have none, and pay nothing for them

    @property
    def _steps(self) -> Steps:
        if self._known is None:
            self._known = Steps(self._job.steps_json)
        return self._known

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
        key = self._steps.begin("step", name)
        shape = shape_of(function)
        if key in self._steps:
            return shape.read(self._steps[key])
        with tracing.stepping(key.name, key.index):
            result = function(*args, **kwargs)
            if iscoroutine(result):
                result.close()
                raise Invalid(
                    f"step {name}: an async function needs an async handler", field="function"
                )
            document = written(key, shape, result)
            self._channel.ask("save_step", _saving(key, document))
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
        key = self._steps.begin("step", name)
        return self._astep(key, function, args, kwargs)

    async def _astep(
        self,
        key: StepKey,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401 - what the function returns
        shape = shape_of(function)
        if key in self._steps:
            return shape.read(self._steps[key])
        with tracing.stepping(key.name, key.index):
            if is_async(function):
                result = await function(*args, **kwargs)
            else:
                import asyncio  # noqa: PLC0415 - not in a zygote: worker/isolation/async_handler.py says why

                result = await asyncio.to_thread(function, *args, **kwargs)
                if isawaitable(result):  # as a lambda may answer
                    result = await result
            document = written(key, shape, result)
            await self._channel.aask("save_step", _saving(key, document))
        return shape.read(document)

    def sleep(self, duration: Duration) -> Done:
        """The job goes on after that time, in a new attempt, and needs no slot until then."""
        key = self._steps.begin("sleep", "sleep")
        if key not in self._steps:
            raise sleeping(key, duration)
        return DONE

    def sleep_until(self, moment: datetime) -> Done:
        """As `sleep`, until a moment; it needs a time zone."""
        key = self._steps.begin("sleep", "sleep")
        if key not in self._steps:
            raise sleeping(key, moment)
        return DONE

    def wait_for_event(
        self,
        name: str,
        match: Mapping[str, Scalar] | None = None,
        *,
        timeout: Duration,
        since: datetime | None = None,
    ) -> Event:
        """Wait for an event of that name whose data has these values, and return it.

        `match` has paths: `{"order.id": 7}`. Events emitted since the job was created count, also
        those emitted while it was still queued, or those emitted after `since`; each event ends
        one wait of the job. The job holds no slot while it waits. Raises EventTimeout.
        """
        key = self._steps.begin("event", name)
        if key not in self._steps:
            raise waiting_for_event(key, match, timeout, since)
        found = self._steps[key]
        if found is None:
            raise EventTimeout(f"no event {name} has come in time", detail={"event": name})
        return Event(UUID(found["id"]), name, found["data"])

    def enqueue(
        self, definition: Enqueuer[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]:
        """A job of that definition, made once in the life of this one."""
        job = definition.args(*args, **kwargs)
        key = self._steps.begin("enqueue", job.request.definition)
        (handle,) = self._handles(definition, self._made(key, [job.request]))
        return handle

    async def aenqueue(
        self, definition: Enqueuer[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]:
        """As `enqueue`, for async code."""
        job = definition.args(*args, **kwargs)
        key = self._steps.begin("enqueue", job.request.definition)
        (handle,) = self._handles(definition, await self._amade(key, [job.request]))
        return handle

    def enqueue_many(
        self, definition: Enqueuer[P, R], jobs: Iterable[Args[P, R]]
    ) -> list[Handle[R]]:
        """As `enqueue`, for jobs that `definition.args(…)` makes: all or none, as one step."""
        requests = definition.requests(jobs)
        key = self._steps.begin("enqueue", definition.key)
        return self._handles(definition, self._made(key, requests))

    async def aenqueue_many(
        self, definition: Enqueuer[P, R], jobs: Iterable[Args[P, R]]
    ) -> list[Handle[R]]:
        """As `enqueue_many`, for async code."""
        requests = definition.requests(jobs)
        key = self._steps.begin("enqueue", definition.key)
        return self._handles(definition, await self._amade(key, requests))

    def _made(self, key: StepKey, requests: Sequence[JobRequest]) -> Json:
        if key in self._steps:
            return self._steps[key]
        return self._channel.ask("enqueue_children", _making(key, requests))

    async def _amade(self, key: StepKey, requests: Sequence[JobRequest]) -> Json:
        if key in self._steps:
            return self._steps[key]
        return await self._channel.aask("enqueue_children", _making(key, requests))

    def _handles(self, definition: Enqueuer[P, R], made: Json) -> list[Handle[R]]:
        jobs = [Enqueued(UUID(job_id), EnqueueStatus(status)) for job_id, status in made]
        return [definition.handle(self._job.tenant_id, job) for job in jobs]

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
        key = self._steps.begin("gather", "gather")
        if key not in self._steps:
            raise waiting_for_jobs(key, [handle.id for handle in handles])
        found = self._steps[key]
        if isinstance(found, dict):
            raise InvalidResult(
                f"the outcomes of {len(handles)} jobs have more than 8 MiB of JSON text, the limit"
                " of a gather",
                field="handles",
            )
        ended = {each["job_id"]: each for each in found}
        answers = [_answer(handle, ended.get(str(handle.id))) for handle in handles]
        if not return_failures:
            for answer in answers:
                if isinstance(answer, ChildFailed):
                    raise answer
        return Results(answers)


def _saving(key: StepKey, result: Json) -> Json:
    return {"name": key.name, "index": key.index, "result": result}


def _making(key: StepKey, requests: Sequence[JobRequest]) -> Json:
    jobs = [request.to_json() for request in tracing.carrying(requests)]
    return {"name": key.name, "index": key.index, "jobs": jobs}


def _is_in_loop() -> bool:
    # Without asyncio nobody has a loop.
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - the public one raises without


def _answer(handle: Handle[R], ended: dict[str, Json] | None) -> R | ChildFailed:
    if ended is None:
        raise Conflict(f"job {handle.id} was not among those that this gather waited for")
    child = Ended(
        handle.id,
        ended["definition"],
        ended["state"] and State(ended["state"]),
        ended["result"],
        ended["error"],
        ended["reason"],
    )
    try:
        return handle.answer(child, child.result)
    except JobFailed as failure:
        return ChildFailed(failure.message, detail=failure.detail)
