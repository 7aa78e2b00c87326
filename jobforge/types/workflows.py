"""Data types for workflows and batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jobs import Enqueued, JobRequest
from jobforge.types.jsonb import JsonFields


class WorkflowState(StrEnum):
    """State of a workflow. `canceling`: some jobs were asked to stop and are still running."""

    RUNNING = "running"
    CANCELING = "canceling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_over(self) -> bool:
        return self not in {WorkflowState.RUNNING, WorkflowState.CANCELING}


@dataclass(frozen=True, slots=True)
class WorkflowRequest(JsonFields):
    """A workflow to enqueue: a name, and nodes whose fields docs/sql.md lists."""

    name: str
    nodes: Sequence[Mapping[str, Json]]
    input: Json = None
    correlation_id: str | None = None
    on_success: JobRequest | Mapping[str, Json] | None = None
    on_failure: JobRequest | Mapping[str, Json] | None = None
    on_complete: JobRequest | Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class BatchRequest(JsonFields):
    """A batch to create. An open batch does not finish."""

    name: str | None = None
    input: Json = None
    correlation_id: str | None = None
    on_success: JobRequest | Mapping[str, Json] | None = None
    on_failure: JobRequest | Mapping[str, Json] | None = None
    on_complete: JobRequest | Mapping[str, Json] | None = None
    open: bool | None = None


class MadeWorkflow(NamedTuple):
    """A new workflow's ID, and its job IDs by node path."""

    id: UUID
    jobs: dict[str, UUID]


class MadeBatch(NamedTuple):
    id: UUID
    jobs: list[Enqueued]


@dataclass(frozen=True, slots=True)
class WorkflowFilter(JsonFields):
    """Filter of workflows or batches; all fields that are set must match."""

    name: str | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class WorkflowInfo:
    """A workflow or a batch."""

    id: UUID
    name: str | None
    parent_id: UUID | None  # the outer workflow
    node: str | None  # name of the node in the outer workflow
    state: WorkflowState
    size: int  # number of jobs
    is_open: bool  # whether the batch accepts more jobs
    counts: dict[str, int] | None  # number of jobs by state; None for a running workflow in a list
    input: Json
    correlation_id: str | None
    callbacks: dict[str, Json]  # the jobs of `on_success`, `on_failure` and `on_complete`
    called: list[str]  # callbacks that were enqueued
    created_by: str
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node and its job; `node` is its path, `inner/name` inside a nested workflow."""

    node: str
    job_id: UUID
    workflow_id: UUID
    state: str
    definition: str | None
    version: int | None
    queue: str | None
    attempt: int | None
    max_attempts: int | None
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: dict[str, Json] | None


@dataclass(frozen=True, slots=True)
class WorkflowDetail:
    """A workflow's nodes, edges and result. An edge is a pair of paths, the parent's first.

    `result` contains the results of the nodes without children. If `has_all_nodes` is false,
    `nodes` is incomplete.
    """

    workflow: WorkflowInfo
    nodes: list[NodeInfo]
    edges: list[tuple[str, str]]
    result: dict[str, Json]
    has_all_nodes: bool


@dataclass(frozen=True, slots=True)
class ParentJob:
    """A job that another job waited for. `name` is the path of its node."""

    job_id: UUID
    name: str | None
    state: str
    definition: str
    result: Json
    error: dict[str, Json] | None
    artifact_ref: str | None


@dataclass(frozen=True, slots=True)
class Family:
    """The workflow or batch of a running job."""

    id: UUID
    kind: str
    name: str | None
    node: str | None
    input: Json
    correlation_id: str | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """A running job's parents and workflow."""

    parents: list[ParentJob]
    workflow: Family | None
