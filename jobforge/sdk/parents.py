"""The parents and the workflow of a running job, as `ctx.parents` and `ctx.workflow`.

Most jobs never need them, so they are requested from the worker on first use, once.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Any
from uuid import UUID

from jobforge.errors import Conflict, Json, NotFound
from jobforge.sdk.enqueue import AnyArgs
from jobforge.sdk.worker_requests import (
    AddNodes,
    AddToBatch,
    JobChannel,
    LoadParents,
    WorkerRequest,
)
from jobforge.sdk.workflow_nodes import Nodes
from jobforge.types.jobs import Enqueued
from jobforge.types.workflows import Family, Lineage, ParentJob


class LazyLineage:
    """The lineage of the running job, requested on first use and cached.

    Code in the worker's own event loop must await `aget` before it calls `get`.
    """

    __slots__ = ("_lineage", "channel")

    def __init__(self, channel: JobChannel) -> None:
        self.channel = channel
        self._lineage: Lineage | None = None

    def get(self) -> Lineage:
        if self._lineage is None:
            self._lineage = self.channel.request(LoadParents())
        return self._lineage

    async def aget(self) -> Lineage:
        if self._lineage is None:
            self._lineage = await self.channel.request_async(LoadParents())
        return self._lineage


class Parents(Mapping[str, ParentJob]):
    """The parents of this job, by the names of their nodes, or by their job IDs.

    An async handler awaits it first: `parents = await ctx.parents`. A sync handler does not.
    """

    __slots__ = ("_lineage",)

    def __init__(self, origin: LazyLineage) -> None:
        self._lineage = origin

    def __await__(self) -> Generator[Any, None, "Parents"]:
        yield from self._lineage.aget().__await__()
        return self

    def __getitem__(self, name: str) -> ParentJob:
        for parent in self._lineage.get().parents:
            if name in {parent.name, str(parent.job_id)}:
                return parent
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (parent.name or str(parent.job_id) for parent in self._lineage.get().parents)

    def __len__(self) -> int:
        return len(self._lineage.get().parents)

    @property
    def results(self) -> list[Json]:
        """Results of the parents, in order; None for a parent that did not succeed."""
        return [parent.result for parent in self._lineage.get().parents]


class OwnWorkflow:
    """The workflow or batch of a running job. Async handlers await it first: `await ctx.workflow`.

    Jobs that wait for this job also wait for the nodes that this job adds.
    """

    __slots__ = ("_lineage",)

    def __init__(self, origin: LazyLineage) -> None:
        self._lineage = origin

    def __await__(self) -> Generator[Any, None, "OwnWorkflow"]:
        yield from self._lineage.aget().__await__()
        return self

    def __bool__(self) -> bool:
        """Whether the job belongs to a workflow or batch."""
        return self._lineage.get().workflow is not None

    @property
    def id(self) -> UUID:
        """The ID of the workflow or batch."""
        return self._family.id

    @property
    def name(self) -> str | None:
        """The name of the workflow or batch."""
        return self._family.name

    @property
    def node(self) -> str | None:
        """The name of this job's node."""
        return self._family.node

    @property
    def input(self) -> Json:
        """The input of the workflow or batch."""
        return self._family.input

    def add(self, *jobs: AnyArgs) -> list[UUID]:
        """Add jobs from `definition.args(…)` as nodes, and return their job IDs.

        In a workflow, each job needs a name from `using(node=…)`. A name that exists already is not
        added again, so a retried handler may repeat the call. In a batch, jobs need no names.
        """
        return _job_ids(self._lineage.channel.request(self._build_addition(jobs)))

    async def aadd(self, *jobs: AnyArgs) -> list[UUID]:
        """Like `add`, for async code."""
        await self._lineage.aget()
        return _job_ids(await self._lineage.channel.request_async(self._build_addition(jobs)))

    @property
    def _family(self) -> Family:
        family = self._lineage.get().workflow
        if family is None:
            raise NotFound("The job does not belong to a workflow or batch")
        return family

    def _build_addition(self, jobs: tuple[AnyArgs, ...]) -> WorkerRequest[list[Enqueued]]:
        if self._family.kind == "batch":
            return AddToBatch(self.id, [job.request for job in jobs])
        nodes = Nodes()
        for job in jobs:
            if job.enqueuer.node_name is None:
                raise Conflict(
                    "A node that a job adds requires a name that is the same in every attempt:"
                    " using(node=…)"
                )
            job.enqueuer.add_to_nodes(nodes, job.request)
        return AddNodes(nodes.documents)


def _job_ids(jobs: list[Enqueued]) -> list[UUID]:
    return [job.job_id for job in jobs]
