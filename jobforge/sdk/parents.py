"""The parents and the workflow of a running job, as `ctx.parents` and `ctx.workflow`.

Most jobs never need them, so they are requested from the worker on first use, once.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Any
from uuid import UUID

from jobforge.calls.workflows import read_lineage
from jobforge.errors import Conflict, Json, NotFound
from jobforge.sdk.durable import RequestChannel
from jobforge.sdk.enqueue import AnyArgs
from jobforge.sdk.workflow_nodes import Nodes
from jobforge.types.workflows import Family, Lineage, ParentJob


class LazyLineage:
    """The lineage of the running job, requested on first use and cached.

    Code in the worker's own event loop must await `aget` before it calls `get`.
    """

    __slots__ = ("_channel", "_lineage")

    def __init__(self, channel: RequestChannel) -> None:
        self._channel = channel
        self._lineage: Lineage | None = None

    def get(self) -> Lineage:
        if self._lineage is None:
            self._lineage = read_lineage(self._channel.request("parents", None))
        return self._lineage

    async def aget(self) -> Lineage:
        if self._lineage is None:
            self._lineage = read_lineage(await self._channel.request_async("parents", None))
        return self._lineage

    def request(self, kind: str, data: Json) -> Json:
        return self._channel.request(kind, data)

    async def request_async(self, kind: str, data: Json) -> Json:
        return await self._channel.request_async(kind, data)


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
        kind, data = self._addition(jobs)
        return _ids(self._lineage.request(kind, data))

    async def aadd(self, *jobs: AnyArgs) -> list[UUID]:
        """Like `add`, for async code."""
        await self._lineage.aget()
        kind, data = self._addition(jobs)
        return _ids(await self._lineage.request_async(kind, data))

    @property
    def _family(self) -> Family:
        family = self._lineage.get().workflow
        if family is None:
            raise NotFound("The job does not belong to a workflow or batch")
        return family

    def _addition(self, jobs: tuple[AnyArgs, ...]) -> tuple[str, Json]:
        if self._family.kind == "batch":
            documents = [job.request.to_json() for job in jobs]
            return "add_to_batch", {"id": str(self.id), "jobs": documents}
        nodes = Nodes()
        for job in jobs:
            if job.enqueuer.node_name is None:
                raise Conflict(
                    "A node that a job adds requires a name that is the same in every attempt:"
                    " using(node=…)"
                )
            job.enqueuer.add_to_nodes(nodes, job.request)
        return "add_nodes", nodes.documents


def _ids(answer: Json) -> list[UUID]:
    return [UUID(job_id) for job_id in answer]
