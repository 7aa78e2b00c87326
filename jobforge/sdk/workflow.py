"""Workflows in the Python API: `with jf.workflow("nightly") as wf:`, and their handles.

The block collects nodes (workflow_nodes.py). At its end, one call creates all of their jobs or
none.
"""

from collections.abc import Iterable
from contextvars import Token
from typing import Any, Self, Unpack
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import Conflict, JobFailed, Json
from jobforge.sdk.definition_settings import refuse_unknown
from jobforge.sdk.duration import Duration
from jobforge.sdk.engine_client import EngineClient, complete
from jobforge.sdk.enqueue import request_from_args
from jobforge.sdk.enqueue_options import OnParentFailure, Parent, read_parents
from jobforge.sdk.job_group import GroupBlock, GroupHandle, WorkflowOptions
from jobforge.sdk.pools import Sender
from jobforge.sdk.worker_requests import EnqueueWorkflow
from jobforge.sdk.workflow_nodes import CURRENT_NODES, Nodes, WorkflowItem
from jobforge.types.workflows import (
    WorkflowDetail,
    WorkflowRequest,
    WorkflowState,
)


class WorkflowHandle(GroupHandle[WorkflowDetail]):
    """A handle of an enqueued workflow. Waiting polls the database with backoff."""

    _kind = "workflow"

    def detail(self) -> WorkflowDetail:
        """Return the current workflow, with its nodes, edges and results."""
        return self._fetch()

    async def adetail(self) -> WorkflowDetail:
        """Like `detail`, for async code."""
        return await self._afetch()

    def result(self, timeout: Duration | None = None) -> dict[str, Json]:
        """Wait for the workflow and return the results of its last nodes by name.

        Raises JobFailed if the workflow did not succeed, and WaitTimeout after `timeout`.
        """
        return _result(self.wait(timeout))

    async def aresult(self, timeout: Duration | None = None) -> dict[str, Json]:  # noqa: ASYNC109 - same API as wait
        """Like `result`, for async code."""
        return _result(await self.await_(timeout))

    def retry(self, from_node: str | None = None) -> int:
        """Retry the nodes that did not succeed. Returns the number of jobs.

        With `from_node`, retry that node and all nodes after it.
        """
        return self._client.run(self._build_retry_call(from_node), self.tenant_id)

    async def aretry(self, from_node: str | None = None) -> int:
        """Like `retry`, for async code."""
        return await self._client.arun(self._build_retry_call(from_node), self.tenant_id)

    def _build_get_call(self) -> Call[WorkflowDetail]:
        return calls.get_workflow(self.id, tenant_id=self.tenant_id)

    def _build_cancel_call(self, reason: str | None) -> Call[WorkflowState]:
        return calls.cancel_workflow(self.id, reason=reason, tenant_id=self.tenant_id)

    def _build_retry_call(self, from_node: str | None) -> Call[int]:
        return calls.retry_workflow(self.id, from_node=from_node, tenant_id=self.tenant_id)

    def _is_over(self, group: WorkflowDetail) -> bool:
        return group.workflow.state.is_over


class Workflow(GroupBlock, WorkflowItem):
    """A workflow under construction, in a `with` or `async with` block.

    Within the block, `definition.node(…)` adds a job. When the block ends, JobForge enqueues the
    workflow and sets `handle`. If the block raises an error, JobForge enqueues nothing.
    """

    def __init__(self, client: EngineClient, name: str, **options: Unpack[WorkflowOptions]) -> None:
        refuse_unknown(options, WorkflowOptions, "workflow")
        super().__init__(Nodes(), name)  # its own container: not yet a node of another workflow
        self.nodes = Nodes()
        self._client = client
        self._title = name
        self._input = options.get("input")
        self._correlation_id = options.get("correlation_id")
        self._callbacks = [
            request_from_args(options.get("on_success")),
            request_from_args(options.get("on_failure")),
            request_from_args(options.get("on_complete")),
        ]
        self._tenant = options.get("tenant")
        self._conn = options.get("conn")
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
        return complete(self._enqueue(self._client.blocking))

    async def aenqueue(self) -> WorkflowHandle:
        """Like `enqueue`, for async code."""
        return await self._enqueue(self._client.awaiting)

    async def _enqueue(self, sender: Sender) -> WorkflowHandle:
        self._refuse_twice()
        tenant_id, created = await self._client.submit(
            sender, EnqueueWorkflow(self._request()), self._tenant, self._conn
        )
        self.nodes.assign_handles(tenant_id, created.jobs)
        self._handle = WorkflowHandle(self._client, tenant_id, created.id)
        return self._handle

    def _open(self) -> Self:
        self._context_tokens.append(CURRENT_NODES.set(self.nodes))
        return self

    def _close(self, *, is_failed: bool) -> bool:
        CURRENT_NODES.reset(self._context_tokens.pop())
        return not is_failed and not self._join_outer()

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


def _result(detail: WorkflowDetail) -> dict[str, Json]:
    workflow = detail.workflow
    if workflow.state is not WorkflowState.SUCCEEDED:
        failed = [node.node for node in detail.nodes if node.state in {"dead", "canceled"}]
        raise JobFailed(
            f"Workflow {workflow.id} is {workflow.state}: {', '.join(failed[:5])}",
            detail={"id": str(workflow.id), "state": str(workflow.state), "nodes": failed[:100]},
        )
    return detail.result
