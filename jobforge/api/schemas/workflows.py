"""Schemas of workflows and batches."""

from collections.abc import Iterable, Iterator
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import Body, NulFreeText
from jobforge.api.schemas.jobs import MOST_JOBS, CreatedJobView, DefinitionRef, JobFields, NewJob
from jobforge.errors import Json
from jobforge.types.jobs import JobRequest
from jobforge.types.workflows import BatchRequest, WorkflowRequest, WorkflowState

NodeName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$", examples=["extract"])
]
Title = Annotated[NulFreeText, Field(min_length=1, max_length=200)]
Correlation = Annotated[NulFreeText, Field(min_length=1, max_length=200)]


class Callback(Body):
    """A job to create when the other jobs have finished."""

    definition: DefinitionRef
    payload: dict[str, Json] | None = None

    def to_job_request(self) -> JobRequest:
        return JobRequest(self.definition, self.payload)


class Callbacks(Body):
    """Each callback job is created at most once."""

    on_success: Callback | None = None
    on_failure: Callback | None = None
    on_complete: Callback | None = None

    def to_job_requests(self) -> dict[str, JobRequest | None]:
        callbacks = {
            name: getattr(self, name) for name in ("on_success", "on_failure", "on_complete")
        }
        return {name: each and each.to_job_request() for name, each in callbacks.items()}


class NewNode(JobFields):
    """A workflow's node: a job or, with `workflow` instead of `definition`, a nested workflow."""

    name: NodeName
    definition: DefinitionRef | None = None
    after: Annotated[list[NodeName], Field(max_length=MOST_JOBS)] | None = Field(
        None, description="Nodes that must finish first."
    )
    workflow: "NewWorkflow | None" = None

    def to_document(self, traceparent: str | None) -> dict[str, Json]:
        fields = {name: value for name, value in vars(self).items() if value is not None}
        if self.workflow is not None:
            fields["workflow"] = self.workflow.to_request(traceparent).to_json()
        elif traceparent is not None:
            fields.setdefault("traceparent", traceparent)
        return fields


class NewWorkflow(Callbacks):
    """A workflow to create: jobs and the dependencies between them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "nightly",
                    "nodes": [
                        {"name": "extract", "definition": "extract"},
                        {"name": "load", "definition": "load", "after": ["extract"]},
                    ],
                }
            ]
        }
    )

    name: Title
    nodes: Annotated[list[NewNode], Field(min_length=1, max_length=MOST_JOBS)]
    input: Json = None
    correlation_id: Correlation | None = None

    def to_request(self, traceparent: str | None = None) -> WorkflowRequest:
        """Convert the body to a request. Nodes without a traceparent get the given one."""
        return WorkflowRequest(
            self.name,
            [node.to_document(traceparent) for node in self.nodes],
            self.input,
            self.correlation_id,
            **self.to_job_requests(),
        )


def list_job_requests(nodes: Iterable[NewNode]) -> list[JobRequest]:
    """Return the jobs of all nodes, including nested workflows."""
    return list(_iterate_job_requests(nodes))


def _iterate_job_requests(nodes: Iterable[NewNode]) -> Iterator[JobRequest]:
    for node in nodes:
        if node.definition is not None:
            yield JobRequest(node.definition, node.payload, node.version)
        if node.workflow is not None:
            yield from _iterate_job_requests(node.workflow.nodes)


class NodeJob(BaseModel):
    """`node` is the node's path: `inner/name` for a node of a nested workflow."""

    node: str
    job_id: UUID


class CreatedWorkflowView(BaseModel):
    id: UUID
    nodes: list[NodeJob]


class WorkflowRetryBody(Body):
    """Retries the node `from` and its descendants. Default: all jobs that did not succeed."""

    from_node: Annotated[NulFreeText, Field(max_length=2000)] | None = Field(
        None, alias="from", examples=["load"]
    )


class WorkflowRetryResult(BaseModel):
    jobs: int = Field(description="Number of jobs created.")


class WorkflowStateView(BaseModel):
    state: WorkflowState


class NewBatch(Callbacks):
    """A group of jobs. While the batch is `open`, it does not finish."""

    name: Title | None = None
    input: Json = None
    correlation_id: Correlation | None = None
    open: bool | None = None
    jobs: Annotated[list[NewJob], Field(max_length=MOST_JOBS)] = Field(default_factory=list)

    def to_request(self) -> BatchRequest:
        return BatchRequest(
            self.name, self.input, self.correlation_id, open=self.open, **self.to_job_requests()
        )


class CreatedBatchView(BaseModel):
    id: UUID
    jobs: list[CreatedJobView]
