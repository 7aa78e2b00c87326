"""A handle of a job: its state, waiting for its result, and actions on it."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from pydantic_core import ValidationError

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import Invalid, JobFailed, Json, WaitTimeout
from jobforge.payloads.signature import Shape
from jobforge.sdk.duration import Duration, to_seconds
from jobforge.sdk.engine_client import EngineClient, complete
from jobforge.types.job_history import Explanation, JobEvent, JobHistory
from jobforge.types.jobs import EnqueueStatus, Job, State

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class EndedJob(NamedTuple):
    """A finished job, as `gather` receives it. After retention removed the job, `state` is None."""

    id: UUID
    definition: str | None
    state: State | None
    result: Json = None
    error: dict[str, Json] | None = None
    cancel_reason: str | None = None


class WaitTarget(NamedTuple):
    """The job, workflow or batch to wait for. `id_field` names its ID in error details."""

    kind: str
    id: UUID
    id_field: str

    def timeout_error(self, timeout: Duration | None) -> WaitTimeout:
        limit_s = 0 if timeout is None else to_seconds(timeout, "timeout")
        return WaitTimeout(
            f"{self.kind.capitalize()} {self.id} did not finish within {limit_s:g} s",
            detail={self.id_field: str(self.id)},
        )


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0


@dataclass(eq=False, slots=True, repr=False)  # frozen takes four times as long to create
class Handle(Generic[R_co]):
    """A handle of a job. Waiting polls the database with backoff and keeps nothing open.

    A job that was enqueued in the caller's transaction becomes visible, also to its handle, when
    that transaction commits.
    """

    _client: EngineClient
    _result: Shape
    tenant_id: UUID
    id: UUID
    status: EnqueueStatus

    def __repr__(self) -> str:
        return f"<Handle {self.id} {self.status}>"

    def job(self) -> Job:
        """Return the job.

        Raises NotFound if its transaction has not committed yet, or if the job was removed after
        its retention period.
        """
        return self._client.run(self._build_get_call(), self.tenant_id).job

    async def ajob(self) -> Job:
        """Like `job`, for async code."""
        return (await self._client.arun(self._build_get_call(), self.tenant_id)).job

    def wait(self, timeout: Duration | None = None) -> Job:
        """Wait until the job is succeeded, dead or canceled, and return it.

        Raises WaitTimeout after `timeout`.
        """
        return poll_until(self.job, _is_final, timeout, self._wait_target)

    async def await_(self, timeout: Duration | None = None) -> Job:  # noqa: ASYNC109 - same API as wait
        """Like `wait`, for async code."""
        return await apoll_until(self.ajob, _is_final, timeout, self._wait_target)

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the job and return the handler's result, typed by the return annotation.

        Raises JobFailed if the job has no result because it is dead or canceled, and WaitTimeout
        after `timeout`.
        """
        job = self.wait(timeout)
        stored = self._client.get_result(self._client.blocking, job)
        return self.read_result(job, complete(stored))

    async def aresult(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 - same API as wait
        """Like `result`, for async code."""
        job = await self.await_(timeout)
        stored = self._client.get_result(self._client.awaiting, job)
        return self.read_result(job, await stored)

    def cancel(self, reason: str | None = None) -> State:
        """Cancel the job; a dead job is discarded. Raises Conflict if the job has succeeded.

        Returns `canceling` if the job is running: its worker then stops it.
        """
        return self._client.run(self._build_cancel_call(reason), self.tenant_id)

    async def acancel(self, reason: str | None = None) -> State:
        """Like `cancel`, for async code."""
        return await self._client.arun(self._build_cancel_call(reason), self.tenant_id)

    def retry(
        self, *, payload: dict[str, Json] | None = None, attempts: int | None = None
    ) -> "Handle[R_co]":
        """Run a dead, finished or delayed job again; return the handle of the job that will run.

        For a job that succeeded or was canceled, that is a new job. With `payload`, which replaces
        the arguments, it is always a new job, and a dead job is canceled. `attempts` is the number
        of further attempts. Raises Conflict if the job is queued, blocked or running.
        """
        call = self._build_retry_call(payload, attempts)
        return self._build_retried(self._client.run(call, self.tenant_id))

    async def aretry(
        self, *, payload: dict[str, Json] | None = None, attempts: int | None = None
    ) -> "Handle[R_co]":
        """Like `retry`, for async code."""
        call = self._build_retry_call(payload, attempts)
        return self._build_retried(await self._client.arun(call, self.tenant_id))

    def reschedule(self, at: datetime | None) -> State:
        """Change the earliest start of a job that has not started; None is as soon as possible.

        Raises Conflict if the job is running or has finished.
        """
        return self._client.run(self._build_reschedule_call(at), self.tenant_id)

    async def areschedule(self, at: datetime | None) -> State:
        """Like `reschedule`, for async code."""
        return await self._client.arun(self._build_reschedule_call(at), self.tenant_id)

    def explain(self) -> list[Explanation]:
        """Return the reasons why the job does not run, the decisive reason first."""
        return self._client.run(self._build_explain_call(), self.tenant_id)

    async def aexplain(self) -> list[Explanation]:
        """Like `explain`, for async code."""
        return await self._client.arun(self._build_explain_call(), self.tenant_id)

    def logs(self, *, after: datetime | None = None, limit: int = 200) -> list[JobEvent]:
        """Return log lines of the job, oldest first: those later than `after`, at most `limit`."""
        return self._client.run(self._build_logs_call(after, limit), self.tenant_id)

    async def alogs(self, *, after: datetime | None = None, limit: int = 200) -> list[JobEvent]:
        """Like `logs`, for async code."""
        return await self._client.arun(self._build_logs_call(after, limit), self.tenant_id)

    def follow(self, *, after: datetime | None = None) -> Iterator[JobEvent]:
        """Yield the job's log lines, progress and events: past ones, then each new one.

        The last one has the kind `end`; its data has the job's final state. `after` is the time of
        the last one that you already have.
        """
        from jobforge.sdk.job_follower import follow  # noqa: PLC0415 - kept out of zygotes

        return follow(self._client, self.id, self.tenant_id, after)

    def afollow(self, *, after: datetime | None = None) -> AsyncIterator[JobEvent]:
        """Like `follow`, for `async for`."""
        from jobforge.sdk.job_follower import afollow  # noqa: PLC0415 - kept out of zygotes

        return afollow(self._client, self.id, self.tenant_id, after)

    def _build_get_call(self) -> Call[JobHistory]:
        return calls.get_job(self.id, tenant_id=self.tenant_id)

    def _build_cancel_call(self, reason: str | None) -> Call[State]:
        return calls.cancel_job(self.id, reason=reason, tenant_id=self.tenant_id)

    def _build_retry_call(
        self, payload: dict[str, Json] | None, attempts: int | None
    ) -> Call[UUID]:
        return calls.retry_job(
            self.id, payload=payload, attempts=attempts, tenant_id=self.tenant_id
        )

    def _build_retried(self, job_id: UUID) -> "Handle[R_co]":
        if job_id == self.id:
            return self
        return Handle(self._client, self._result, self.tenant_id, job_id, EnqueueStatus.CREATED)

    def _build_reschedule_call(self, at: datetime | None) -> Call[State]:
        return calls.reschedule_job(self.id, at, tenant_id=self.tenant_id)

    def _build_explain_call(self) -> Call[list[Explanation]]:
        return calls.explain_job(self.id, tenant_id=self.tenant_id)

    def _build_logs_call(self, after: datetime | None, limit: int) -> Call[list[JobEvent]]:
        return calls.list_notes(
            self.id, after=after, kinds=["log"], limit=limit, tenant_id=self.tenant_id
        )

    @property
    def _wait_target(self) -> WaitTarget:
        return WaitTarget("job", self.id, "job_id")

    def read_result(self, job: Job | EndedJob, result: Json) -> R_co:
        """Return the result of a finished job; raise JobFailed when it did not succeed."""
        if job.state is not State.SUCCEEDED:
            raise _failure(job)
        try:
            value: Any = self._result.read(result)
        except ValidationError as error:
            raise Invalid(
                f"The result of job {job.id} does not match the type of {job.definition}: {error}",
                field="result",
            ) from error
        else:
            return value  # type: ignore[no-any-return] # the shape describes R


def poll_until(
    fetch: Callable[[], T],
    is_over: Callable[[T], bool],
    timeout: Duration | None,
    target: WaitTarget,
) -> T:
    """Call `fetch` until its value is over and return that value; raise WaitTimeout."""
    for pause in _pauses(timeout):
        if is_over(value := fetch()):
            return value
        time.sleep(pause)
    raise target.timeout_error(timeout)


async def apoll_until(
    fetch: Callable[[], Awaitable[T]],
    is_over: Callable[[T], bool],
    timeout: Duration | None,  # noqa: ASYNC109 - same API as poll_until
    target: WaitTarget,
) -> T:
    """Like `poll_until`, for async code."""
    import asyncio  # noqa: PLC0415 - keeps asyncio out of zygotes, see worker/isolation/async_handler.py

    for pause in _pauses(timeout):
        if is_over(value := await fetch()):
            return value
        await asyncio.sleep(pause)
    raise target.timeout_error(timeout)


def _pauses(timeout: Duration | None) -> Iterator[float]:
    """Yield the pause after each poll. The last poll takes place at the deadline."""
    from random import uniform  # noqa: PLC0415 - kept out of zygotes (docs/decisions/0020)

    deadline = None if timeout is None else time.monotonic() + to_seconds(timeout, "timeout")
    pause = _FIRST_PAUSE_S
    while deadline is None or time.monotonic() < deadline:
        remaining_s = _LONGEST_PAUSE_S if deadline is None else deadline - time.monotonic()
        # Jitter: clients that wait for jobs of one batch should not poll at the same time.
        yield max(0.0, min(pause * uniform(0.8, 1.2), remaining_s))  # noqa: S311 - jitter, not a secret
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)
    yield 0.0


def _is_final(job: Job) -> bool:
    return job.state.is_final


def _failure(job: Job | EndedJob) -> JobFailed:
    if job.state is None:
        return JobFailed(f"Job {job.id} was removed by retention", detail={"job_id": str(job.id)})
    error = job.error or {}
    reason = job.cancel_reason if job.state is State.CANCELED else error.get("message")
    return JobFailed(
        f"Job {job.id} of {job.definition} is {job.state}: {reason or 'unknown reason'}",
        detail={"job_id": str(job.id), "state": str(job.state), "error": job.error},
    )
