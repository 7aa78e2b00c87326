"""What workflows and batches share: their options, their `with` block, and waiting for them."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypedDict, TypeVar
from uuid import UUID

from jobforge.calls import Call
from jobforge.errors import Json
from jobforge.sdk.duration import Duration
from jobforge.sdk.engine_client import EngineClient
from jobforge.sdk.enqueue import AnyArgs
from jobforge.sdk.enqueue_options import TenantRef
from jobforge.sdk.handle import WaitTarget, apoll_until, poll_until
from jobforge.types.workflows import WorkflowState

T = TypeVar("T")


class WorkflowOptions(TypedDict, total=False):
    """The options of `jf.workflow(…)`; docs/workflows.md describes each."""

    input: Json
    correlation_id: str | None
    on_success: AnyArgs | None
    on_failure: AnyArgs | None
    on_complete: AnyArgs | None
    tenant: TenantRef | None
    conn: Any  # a connection of any of the libraries in integrations/


class GroupBlock(ABC):
    """A `with` or `async with` block: its end enqueues what the block has collected."""

    def __enter__(self) -> Self:
        return self._open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._close(is_failed=kind is not None):
            self.enqueue()

    async def __aenter__(self) -> Self:
        return self._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._close(is_failed=kind is not None):
            await self.aenqueue()

    @abstractmethod
    def enqueue(self) -> object: ...

    @abstractmethod
    async def aenqueue(self) -> object: ...

    def _open(self) -> Self:
        return self

    def _close(self, *, is_failed: bool) -> bool:
        """End the block; return whether to enqueue what it has collected."""
        return not is_failed


class GroupHandle(ABC, Generic[T]):
    """A handle of a workflow or batch. Waiting polls the database with backoff."""

    _kind: ClassVar[str]

    def __init__(self, client: EngineClient, tenant_id: UUID, group_id: UUID) -> None:
        self._client = client
        self.id = group_id
        self.tenant_id = tenant_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def wait(self, timeout: Duration | None = None) -> T:
        """Wait until all jobs have finished, and return the workflow or batch.

        Raises WaitTimeout after `timeout`.
        """
        return poll_until(self._fetch, self._is_over, timeout, self._wait_target)

    async def await_(self, timeout: Duration | None = None) -> T:  # noqa: ASYNC109 - same API as wait
        """Like `wait`, for async code."""
        return await apoll_until(self._afetch, self._is_over, timeout, self._wait_target)

    def cancel(self, reason: str | None = None) -> WorkflowState:
        """Cancel the workflow or batch.

        Returns `canceling` while some of its jobs are still running.
        """
        return self._client.run(self._build_cancel_call(reason), self.tenant_id)

    async def acancel(self, reason: str | None = None) -> WorkflowState:
        """Like `cancel`, for async code."""
        return await self._client.arun(self._build_cancel_call(reason), self.tenant_id)

    def _fetch(self) -> T:
        return self._client.run(self._build_get_call(), self.tenant_id)

    async def _afetch(self) -> T:
        return await self._client.arun(self._build_get_call(), self.tenant_id)

    @property
    def _wait_target(self) -> WaitTarget:
        return WaitTarget(self._kind, self.id, "id")

    @abstractmethod
    def _build_get_call(self) -> Call[T]: ...

    @abstractmethod
    def _build_cancel_call(self, reason: str | None) -> Call[WorkflowState]: ...

    @abstractmethod
    def _is_over(self, group: T) -> bool: ...
