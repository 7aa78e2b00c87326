"""Bodies and answers of the routes on workflows and batches."""

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
    """A job that is made when the others have ended."""

    definition: DefinitionRef
    payload: dict[str, Json] | None = None

    def to_job_request(self) -> JobRequest:
        return JobRequest(self.definition, self.payload)


class Callbacks(Body):
    """Each is made once at most."""

    on_success: Callback | None = None
    on_failure: Callback | None = None
    on_complete: Callback | None = None

    def to_job_requests(self) -> dict[str, JobRequest | None]:
        given = {name: getattr(self, name) for name in ("on_success", "on_failure", "on_complete")}
        return {name: each and each.to_job_request() for name, each in given.items()}


class NewNode(JobFields):
    """A job of a workflow; or, with `workflow` in place of `definition`, a workflow in it."""

    name: NodeName
    definition: DefinitionRef | None = None
    after: Annotated[list[NodeName], Field(max_length=MOST_JOBS)] | None = Field(
        None, description="Nodes that have to end first."
    )
    workflow: "NewWorkflow | None" = None

    def to_document(self, traceparent: str | None) -> dict[str, Json]:
        given = {name: value for name, value in vars(self).items() if value is not None}
        if self.workflow is not None:
            given["workflow"] = self.workflow.to_request(traceparent).to_json()
        elif traceparent is not None:
            given.setdefault("traceparent", traceparent)
        return given


class NewWorkflow(Callbacks):
    """Jobs to be made together, that come after each other."""

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
        """Its nodes are in that trace, unless they name one."""
        return WorkflowRequest(
            self.name,
            [node.to_document(traceparent) for node in self.nodes],
            self.input,
            self.correlation_id,
            **self.to_job_requests(),
        )


def list_job_requests(nodes: Iterable[NewNode]) -> list[JobRequest]:
    """Their jobs, those of inner workflows too."""
    return list(_iterate_job_requests(nodes))


def _iterate_job_requests(nodes: Iterable[NewNode]) -> Iterator[JobRequest]:
    for node in nodes:
        if node.definition is not None:
            yield JobRequest(node.definition, node.payload, node.version)
        if node.workflow is not None:
            yield from _iterate_job_requests(node.workflow.nodes)


class NodeJob(BaseModel):
    """`node` is the path of its name: `inner/name` in an inner workflow."""

    node: str
    job_id: UUID


class CreatedWorkflowView(BaseModel):
    id: UUID
    nodes: list[NodeJob]


class WorkflowRetryBody(Body):
    """Without `from`, all that did not succeed; else that node and all that come after it."""

    from_node: Annotated[NulFreeText, Field(max_length=2000)] | None = Field(
        None, alias="from", examples=["load"]
    )


class WorkflowRetryResult(BaseModel):
    jobs: int = Field(description="How many jobs were made.")


class WorkflowStateView(BaseModel):
    state: WorkflowState


class NewBatch(Callbacks):
    """Jobs that belong together. While it is `open` it does not end."""

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
