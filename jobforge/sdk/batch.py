"""Batches in the Python API: `with jf.batch(on_success=…) as batch:`, and their handles."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import Conflict, Invalid, JobForgeError, Json
from jobforge.observability import tracing
from jobforge.sdk.duration import Duration
from jobforge.sdk.engine_client import CallBuilder, EngineClient
from jobforge.sdk.enqueue import AnyArgs, check_args, request_from_args
from jobforge.sdk.enqueue_errors import with_hint
from jobforge.sdk.enqueue_options import TenantRef
from jobforge.sdk.handle import WaitTarget, apoll_until, poll_until
from jobforge.sdk.worker_requests import (
    AddToBatch,
    CloseBatch,
    CreateBatch,
    inherit_from_current_job,
)
from jobforge.types.jobs import Enqueued, JobRequest
from jobforge.types.workflows import BatchRequest, MadeBatch, WorkflowInfo, WorkflowState

_MOST_AT_ONCE = 50_000
_FLUSH_SIZE = 1_000


class BatchHandle:
    """A handle of a created batch. Any process can add jobs until the batch has finished."""

    def __init__(self, client: EngineClient, tenant_id: UUID, batch_id: UUID) -> None:
        self._client = client
        self.id = batch_id
        self.tenant_id = tenant_id

    def __repr__(self) -> str:
        return f"<BatchHandle {self.id}>"

    def progress(self) -> WorkflowInfo:
        """Return the current batch; `counts` is the number of its jobs per state."""
        return self._client.run_for_tenant(self.tenant_id, self._build_get_call)

    async def aprogress(self) -> WorkflowInfo:
        """Like `progress`, for async code."""
        return await self._client.arun_for_tenant(self.tenant_id, self._build_get_call)

    def wait(self, timeout: Duration | None = None) -> WorkflowInfo:
        """Wait until the batch has finished, and return it. Raises WaitTimeout after `timeout`."""
        return poll_until(self.progress, _is_over, timeout, self._wait_target)

    async def await_(self, timeout: Duration | None = None) -> WorkflowInfo:  # noqa: ASYNC109 - same API as wait
        """Like `wait`, for async code."""
        return await apoll_until(self.aprogress, _is_over, timeout, self._wait_target)

    def add(self, *jobs: AnyArgs) -> list[Enqueued]:
        """Add jobs and enqueue them immediately. Raises Conflict if the batch has finished."""
        try:
            return self._client.run_for_tenant(self.tenant_id, self._build_add_call(jobs))
        except JobForgeError as error:
            raise with_hint(error, None) from error

    async def aadd(self, *jobs: AnyArgs) -> list[Enqueued]:
        """Like `add`, for async code."""
        try:
            return await self._client.arun_for_tenant(self.tenant_id, self._build_add_call(jobs))
        except JobForgeError as error:
            raise with_hint(error, None) from error

    def cancel(self, reason: str | None = None) -> WorkflowState:
        """Cancel the batch. Returns `canceling` while some of its jobs are still running."""
        return self._client.run_for_tenant(self.tenant_id, self._build_cancel_call(reason))

    async def acancel(self, reason: str | None = None) -> WorkflowState:
        """Like `cancel`, for async code."""
        return await self._client.arun_for_tenant(self.tenant_id, self._build_cancel_call(reason))

    @property
    def _wait_target(self) -> WaitTarget:
        return WaitTarget("batch", self.id, "id")

    def _build_get_call(self, tenant_id: UUID | None) -> Call[WorkflowInfo]:
        return calls.get_batch(self.id, tenant_id=tenant_id)

    def _build_cancel_call(self, reason: str | None) -> CallBuilder[WorkflowState]:
        return lambda tenant: calls.cancel_batch(self.id, reason=reason, tenant_id=tenant)

    def _build_add_call(self, jobs: tuple[AnyArgs, ...]) -> CallBuilder[list[Enqueued]]:
        return inherit_from_current_job(AddToBatch(self.id, _requests(jobs))).build_tenant_call


class Batch:
    """A batch under construction, in a `with` or `async with` block.

    By default all jobs are created together at the end of the block, and an error in the block
    creates nothing. With `open=True`, jobs are created during the block, 1,000 at a time, so their
    number is unlimited; the end of the block closes the batch.
    """

    def __init__(  # noqa: PLR0913 - one parameter per option
        self,
        client: EngineClient,
        *,
        name: str | None = None,
        input: Json = None,  # noqa: A002 - the engine's name
        correlation_id: str | None = None,
        on_success: AnyArgs | None = None,
        on_failure: AnyArgs | None = None,
        on_complete: AnyArgs | None = None,
        open: bool = False,  # noqa: A002 - the engine's name
        tenant: TenantRef | None = None,
        conn: Any = None,  # noqa: ANN401 - a connection of any of several libraries
    ) -> None:
        self._client = client
        self._request = BatchRequest(
            name,
            input,
            correlation_id,
            on_success=request_from_args(on_success),
            on_failure=request_from_args(on_failure),
            on_complete=request_from_args(on_complete),
            open=open or None,
        )
        self._tenant = tenant
        self._conn = conn
        self._jobs: list[JobRequest] = []
        self._handle: BatchHandle | None = None

    @property
    def handle(self) -> BatchHandle:
        """The handle of the batch. Raises Conflict before the batch is created."""
        if self._handle is None:
            raise Conflict("The batch is created at the end of its with block")
        return self._handle

    def add(self, *jobs: AnyArgs) -> None:
        """Add jobs from `definition.args(…)`."""
        if self._buffer_jobs(jobs):
            self._flush()

    async def aadd(self, *jobs: AnyArgs) -> None:
        """Like `add`, for async code; only an open batch needs it."""
        if self._buffer_jobs(jobs):
            await self._aflush()

    def enqueue(self) -> BatchHandle:
        """Create the batch and its jobs. The end of the `with` block calls this method."""
        self._flush()
        if self._request.open:
            self._client.submit(CloseBatch(self.handle.id), self._tenant, self._conn)
        return self.handle

    async def aenqueue(self) -> BatchHandle:
        """Like `enqueue`, for async code."""
        await self._aflush()
        if self._request.open:
            await self._client.asubmit(CloseBatch(self.handle.id), self._tenant, self._conn)
        return self.handle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.enqueue()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.aenqueue()

    def _buffer_jobs(self, jobs: tuple[AnyArgs, ...]) -> bool:
        """Buffer the jobs; return whether the buffer should be sent now."""
        self._jobs += _requests(jobs)
        if self._request.open:
            return len(self._jobs) >= _FLUSH_SIZE
        if len(self._jobs) > _MOST_AT_ONCE:
            raise Invalid(
                f"A batch can create at most {_MOST_AT_ONCE} jobs at once; use jf.batch(open=True)",
                field="jobs",
            )
        return False

    def _flush(self) -> None:
        if self._handle is None:
            request = CreateBatch(self._request, self._jobs)
            self._set_handle(*self._client.submit(request, self._tenant, self._conn))
        elif self._jobs:
            addition = AddToBatch(self.handle.id, self._jobs)
            self._client.submit(addition, self._tenant, self._conn)
        self._jobs = []

    async def _aflush(self) -> None:
        if self._handle is None:
            request = CreateBatch(self._request, self._jobs)
            self._set_handle(*await self._client.asubmit(request, self._tenant, self._conn))
        elif self._jobs:
            addition = AddToBatch(self.handle.id, self._jobs)
            await self._client.asubmit(addition, self._tenant, self._conn)
        self._jobs = []

    def _set_handle(self, tenant_id: UUID, created: MadeBatch) -> None:
        self._handle = BatchHandle(self._client, tenant_id, created.id)


def _requests(jobs: tuple[AnyArgs, ...]) -> Sequence[JobRequest]:
    return tracing.attach_traceparent([check_args(job).request for job in jobs])


def _is_over(batch: WorkflowInfo) -> bool:
    return batch.state.is_over
