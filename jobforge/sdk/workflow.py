"""Workflows in the Python API: `with jf.workflow("nightly") as wf:`, and their handles.

The block collects nodes (workflow_nodes.py). At its end, one call creates all of their jobs or
none.
"""

from collections.abc import Iterable
from contextvars import Token
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import Conflict, JobFailed, Json
from jobforge.sdk.duration import Duration
from jobforge.sdk.engine_client import CallBuilder, EngineClient
from jobforge.sdk.enqueue import AnyArgs, request_from_args
from jobforge.sdk.enqueue_options import OnParentFailure, Parent, TenantRef, read_parents
from jobforge.sdk.handle import WaitTarget, apoll_until, poll_until
from jobforge.sdk.worker_requests import EnqueueWorkflow
from jobforge.sdk.workflow_nodes import CURRENT_NODES, Nodes, WorkflowItem
from jobforge.types.workflows import (
    MadeWorkflow,
    WorkflowDetail,
    WorkflowRequest,
    WorkflowState,
)


class WorkflowHandle:
    """A handle of an enqueued workflow. Waiting polls the database with backoff."""

    def __init__(self, client: EngineClient, tenant_id: UUID, workflow_id: UUID) -> None:
        self._client = client
        self.id = workflow_id
        self.tenant_id = tenant_id

    def __repr__(self) -> str:
        return f"<WorkflowHandle {self.id}>"

    def detail(self) -> WorkflowDetail:
        """Return the current workflow, with its nodes, edges and results."""
        return self._client.run_for_tenant(self.tenant_id, self._build_get_call)

    async def adetail(self) -> WorkflowDetail:
        """Like `detail`, for async code."""
        return await self._client.arun_for_tenant(self.tenant_id, self._build_get_call)

    def wait(self, timeout: Duration | None = None) -> WorkflowDetail:
        """Wait until all jobs of the workflow have finished, and return the workflow.

        Raises WaitTimeout after `timeout`.
        """
        return poll_until(self.detail, _is_over, timeout, self._wait_target)

    async def await_(self, timeout: Duration | None = None) -> WorkflowDetail:  # noqa: ASYNC109 - same API as wait
        """Like `wait`, for async code."""
        return await apoll_until(self.adetail, _is_over, timeout, self._wait_target)

    def result(self, timeout: Duration | None = None) -> dict[str, Json]:
        """Wait for the workflow and return the results of its last nodes by name.

        Raises JobFailed if the workflow did not succeed, and WaitTimeout after `timeout`.
        """
        return _result(self.wait(timeout))

    async def aresult(self, timeout: Duration | None = None) -> dict[str, Json]:  # noqa: ASYNC109 - same API as wait
        """Like `result`, for async code."""
        return _result(await self.await_(timeout))

    def cancel(self, reason: str | None = None) -> WorkflowState:
        """Cancel the workflow. Returns `canceling` while some of its jobs are still running."""
        return self._client.run_for_tenant(self.tenant_id, self._build_cancel_call(reason))

    async def acancel(self, reason: str | None = None) -> WorkflowState:
        """Like `cancel`, for async code."""
        return await self._client.arun_for_tenant(self.tenant_id, self._build_cancel_call(reason))

    def retry(self, from_node: str | None = None) -> int:
        """Retry the nodes that did not succeed. Returns the number of jobs.

        With `from_node`, retry that node and all nodes after it.
        """
        return self._client.run_for_tenant(self.tenant_id, self._build_retry_call(from_node))

    async def aretry(self, from_node: str | None = None) -> int:
        """Like `retry`, for async code."""
        return await self._client.arun_for_tenant(self.tenant_id, self._build_retry_call(from_node))

    @property
    def _wait_target(self) -> WaitTarget:
        return WaitTarget("workflow", self.id, "id")

    def _build_get_call(self, tenant_id: UUID | None) -> Call[WorkflowDetail]:
        return calls.get_workflow(self.id, tenant_id=tenant_id)

    def _build_cancel_call(self, reason: str | None) -> CallBuilder[WorkflowState]:
        return lambda tenant: calls.cancel_workflow(self.id, reason=reason, tenant_id=tenant)

    def _build_retry_call(self, from_node: str | None) -> CallBuilder[int]:
        return lambda tenant: calls.retry_workflow(self.id, from_node=from_node, tenant_id=tenant)


class Workflow(WorkflowItem):
    """A workflow under construction, in a `with` or `async with` block.

    Within the block, `definition.node(…)` adds a job. The end of the block enqueues the workflow,
    which then has a handle. An error in the block enqueues nothing.
    """

    def __init__(  # noqa: PLR0913 - one parameter per option
        self,
        client: EngineClient,
        name: str,
        *,
        input: Json = None,  # noqa: A002 - the engine's name
        correlation_id: str | None = None,
        on_success: AnyArgs | None = None,
        on_failure: AnyArgs | None = None,
        on_complete: AnyArgs | None = None,
        tenant: TenantRef | None = None,
        conn: Any = None,  # noqa: ANN401 - a connection of any of several libraries
    ) -> None:
        super().__init__(Nodes(), name)  # its own container: not yet a node of another workflow
        self.nodes = Nodes()
        self._client = client
        self._title = name
        self._input = input
        self._correlation_id = correlation_id
        self._callbacks = [
            request_from_args(each) for each in (on_success, on_failure, on_complete)
        ]
        self._tenant = tenant
        self._conn = conn
        self._context_tokens: list[Token[Nodes | None]] = []
        self._is_inner = False
        self._after: tuple[Any, ...] = ()
        self._on_parent_failure: OnParentFailure | None = None
        self._handle: WorkflowHandle | None = None

    def __repr__(self) -> str:
        return f"<Workflow {self._title}>"

    @property
    def handle(self) -> WorkflowHandle:
        """The handle of the workflow. Raises Conflict before the workflow is enqueued."""
        if self._handle is None:
            raise Conflict(
                f"Workflow '{self._title}' is not enqueued, or is inside another workflow"
            )
        return self._handle

    @property
    def id(self) -> UUID:
        """The workflow's ID. Raises Conflict before the workflow is enqueued."""
        return self.handle.id

    def workflow(
        self,
        name: str,
        *,
        input: Json = None,  # noqa: A002 - the engine's name
        after: Parent | Iterable[Parent] | None = None,
        on_parent_failure: OnParentFailure | None = None,
    ) -> "Workflow":
        """Return an inner workflow: a node of this one, with its own nodes and `with` block."""
        inner = Workflow(self._client, name, input=input)
        inner._is_inner = True
        inner.container = self.nodes
        inner.name = self.nodes.reserve_name(name)
        inner._after = read_parents(after)
        inner._on_parent_failure = on_parent_failure
        return inner

    def enqueue(self) -> WorkflowHandle:
        """Create the jobs of the workflow. The end of the `with` block calls this method."""
        self._refuse_twice()
        tenant_id, created = self._client.submit(
            EnqueueWorkflow(self._request()), self._tenant, self._conn
        )
        return self._set_handle(tenant_id, created)

    async def aenqueue(self) -> WorkflowHandle:
        """Like `enqueue`, for async code."""
        self._refuse_twice()
        tenant_id, created = await self._client.asubmit(
            EnqueueWorkflow(self._request()), self._tenant, self._conn
        )
        return self._set_handle(tenant_id, created)

    def __enter__(self) -> Self:
        self._context_tokens.append(CURRENT_NODES.set(self.nodes))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        CURRENT_NODES.reset(self._context_tokens.pop())
        if kind is None and not self._join_outer():
            self.enqueue()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        CURRENT_NODES.reset(self._context_tokens.pop())
        if kind is None and not self._join_outer():
            await self.aenqueue()

    def _refuse_twice(self) -> None:
        if self._handle is not None:
            raise Conflict(
                f"Workflow '{self._title}' is already enqueued as {self._handle.id}: the end of its"
                " with block enqueues it"
            )

    def _join_outer(self) -> bool:
        if self._is_inner:
            document: dict[str, Json] = {"workflow": self._request().to_json()}
            if self._on_parent_failure is not None:
                document["on_parent_failure"] = self._on_parent_failure
            self.container.add_inner(self.nodes, self.name, self._after, document)
        return self._is_inner

    def _request(self) -> WorkflowRequest:
        return WorkflowRequest(
            self._title, self.nodes.documents, self._input, self._correlation_id, *self._callbacks
        )

    def _set_handle(self, tenant_id: UUID, created: MadeWorkflow) -> WorkflowHandle:
        self.nodes.assign_handles(tenant_id, created.jobs)
        self._handle = WorkflowHandle(self._client, tenant_id, created.id)
        return self._handle


def _is_over(detail: WorkflowDetail) -> bool:
    return detail.workflow.state.is_over


def _result(detail: WorkflowDetail) -> dict[str, Json]:
    workflow = detail.workflow
    if workflow.state is not WorkflowState.SUCCEEDED:
        failed = [node.node for node in detail.nodes if node.state in {"dead", "canceled"}]
        raise JobFailed(
            f"Workflow {workflow.id} is {workflow.state}: {', '.join(failed[:5])}",
            detail={"id": str(workflow.id), "state": str(workflow.state), "nodes": failed[:100]},
        )
    return detail.result
