"""Batches in the Python API: `with jf.batch(on_success=…) as batch:`, and their handles."""

from collections.abc import Sequence
from typing import Unpack

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import Conflict, Invalid, JobForgeError
from jobforge.observability import tracing
from jobforge.sdk.definition_settings import refuse_unknown
from jobforge.sdk.engine_client import EngineClient, complete
from jobforge.sdk.enqueue import AnyArgs, check_args, request_from_args
from jobforge.sdk.enqueue_errors import with_hint
from jobforge.sdk.job_group import GroupBlock, GroupHandle, WorkflowOptions
from jobforge.sdk.pools import Sender
from jobforge.sdk.worker_requests import (
    AddToBatch,
    CloseBatch,
    CreateBatch,
    inherit_from_current_job,
)
from jobforge.types.jobs import Enqueued, JobRequest
from jobforge.types.workflows import BatchRequest, WorkflowInfo, WorkflowState

_MOST_AT_ONCE = 50_000
_FLUSH_SIZE = 1_000


class BatchOptions(WorkflowOptions, total=False):
    """The options of `jf.batch(…)`; docs/workflows.md describes each."""

    name: str | None
    open: bool


class BatchHandle(GroupHandle[WorkflowInfo]):
    """A handle of a created batch. Any process can add jobs until the batch has finished."""

    _kind = "batch"

    def progress(self) -> WorkflowInfo:
        """Return the current batch; `counts` is the number of its jobs per state."""
        return self._fetch()

    async def aprogress(self) -> WorkflowInfo:
        """Like `progress`, for async code."""
        return await self._afetch()

    def add(self, *jobs: AnyArgs) -> list[Enqueued]:
        """Add jobs and enqueue them immediately. Raises Conflict if the batch has finished."""
        try:
            return self._client.run(self._build_add_call(jobs), self.tenant_id)
        except JobForgeError as error:
            raise with_hint(error, None) from error

    async def aadd(self, *jobs: AnyArgs) -> list[Enqueued]:
        """Like `add`, for async code."""
        try:
            return await self._client.arun(self._build_add_call(jobs), self.tenant_id)
        except JobForgeError as error:
            raise with_hint(error, None) from error

    def _build_add_call(self, jobs: tuple[AnyArgs, ...]) -> Call[list[Enqueued]]:
        addition = inherit_from_current_job(AddToBatch(self.id, _requests(jobs)))
        return addition.build_tenant_call(self.tenant_id)

    def _build_get_call(self) -> Call[WorkflowInfo]:
        return calls.get_batch(self.id, tenant_id=self.tenant_id)

    def _build_cancel_call(self, reason: str | None) -> Call[WorkflowState]:
        return calls.cancel_batch(self.id, reason=reason, tenant_id=self.tenant_id)

    def _is_over(self, group: WorkflowInfo) -> bool:
        return group.state.is_over


class Batch(GroupBlock):
    """A batch under construction, in a `with` or `async with` block.

    By default, all jobs are created together when the block ends. If the block raises an error, no
    jobs are created. With `open=True`, jobs are created during the block, 1,000 at a time, so their
    number is unlimited, and the batch is closed when the block ends.
    """

    def __init__(self, client: EngineClient, **options: Unpack[BatchOptions]) -> None:
        refuse_unknown(options, BatchOptions, "batch")
        self._client = client
        self._request = BatchRequest(
            options.get("name"),
            options.get("input"),
            options.get("correlation_id"),
            on_success=request_from_args(options.get("on_success")),
            on_failure=request_from_args(options.get("on_failure")),
            on_complete=request_from_args(options.get("on_complete")),
            open=options.get("open") or None,
        )
        self._tenant = options.get("tenant")
        self._conn = options.get("conn")
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
            complete(self._flush(self._client.blocking))

    async def aadd(self, *jobs: AnyArgs) -> None:
        """Like `add`, for async code; only an open batch needs it."""
        if self._buffer_jobs(jobs):
            await self._flush(self._client.awaiting)

    def enqueue(self) -> BatchHandle:
        """Create the batch and its jobs. The end of the `with` block calls this method."""
        return complete(self._enqueue(self._client.blocking))

    async def aenqueue(self) -> BatchHandle:
        """Like `enqueue`, for async code."""
        return await self._enqueue(self._client.awaiting)

    async def _enqueue(self, sender: Sender) -> BatchHandle:
        await self._flush(sender)
        if self._request.open:
            close = CloseBatch(self.handle.id)
            await self._client.submit(sender, close, self._tenant, self._conn)
        return self.handle

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

    async def _flush(self, sender: Sender) -> None:
        if self._handle is None:
            create = CreateBatch(self._request, self._jobs)
            tenant_id, made = await self._client.submit(sender, create, self._tenant, self._conn)
            self._handle = BatchHandle(self._client, tenant_id, made.id)
        elif self._jobs:
            add = AddToBatch(self._handle.id, self._jobs)
            await self._client.submit(sender, add, self._tenant, self._conn)
        self._jobs = []


def _requests(jobs: tuple[AnyArgs, ...]) -> Sequence[JobRequest]:
    return tracing.attach_traceparent([check_args(job).request for job in jobs])
