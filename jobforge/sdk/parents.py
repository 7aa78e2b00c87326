"""What a running job comes from: its parents and its workflow, as `ctx` offers them.

Asked of the worker when it is first wanted, and once: most jobs never ask.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Any, Protocol
from uuid import UUID

from jobforge.calls.rows import read_lineage
from jobforge.errors import Conflict, Json, NotFound
from jobforge.sdk.enqueue import AnyArgs
from jobforge.sdk.workflow_nodes import Nodes
from jobforge.types.workflows import Family, Lineage, ParentJob


class LineageChannel(Protocol):
    """How a running job asks its worker."""

    def request(self, kind: str, data: Json) -> Json: ...

    async def request_async(self, kind: str, data: Json) -> Json: ...


class LazyLineage:
    """The answer, once there is one. In the worker's own loop it has to be awaited first."""

    __slots__ = ("_channel", "_lineage")

    def __init__(self, channel: LineageChannel) -> None:
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
    """The jobs that this one came after, by the names of their nodes, or by their ids.

    `parents = await ctx.parents` in an async handler; a sync one needs no await.
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
        """What they returned, in their order; None for one that did not succeed."""
        return [parent.result for parent in self._lineage.get().parents]


class OwnWorkflow:
    """The workflow or batch that a running job is of. `await ctx.workflow` as with `ctx.parents`.

    What it adds comes before the jobs that come after this one: they wait for it too.
    """

    __slots__ = ("_lineage",)

    def __init__(self, origin: LazyLineage) -> None:
        self._lineage = origin

    def __await__(self) -> Generator[Any, None, "OwnWorkflow"]:
        yield from self._lineage.aget().__await__()
        return self

    def __bool__(self) -> bool:
        """Whether the job is of any."""
        return self._lineage.get().workflow is not None

    @property
    def id(self) -> UUID:
        return self._family.id

    @property
    def name(self) -> str | None:
        return self._family.name

    @property
    def node(self) -> str | None:
        """The name of this job's own node."""
        return self._family.node

    @property
    def input(self) -> Json:
        return self._family.input

    def add(self, *jobs: AnyArgs) -> list[UUID]:
        """Jobs as `definition.args(…)` makes them, as nodes; each has to have a name.

        The name is `using(node=…)`. One that is there already is not added again, so a handler that
        is run twice may add the same twice. In a batch, jobs need no names.
        """
        kind, data = self._addition(jobs)
        return _ids(self._lineage.request(kind, data))

    async def aadd(self, *jobs: AnyArgs) -> list[UUID]:
        """As `add`, for async code."""
        await self._lineage.aget()
        kind, data = self._addition(jobs)
        return _ids(await self._lineage.request_async(kind, data))

    @property
    def _family(self) -> Family:
        family = self._lineage.get().workflow
        if family is None:
            raise NotFound("this job is of no workflow and no batch")
        return family

    def _addition(self, jobs: tuple[AnyArgs, ...]) -> tuple[str, Json]:
        if self._family.kind == "batch":
            documents = [job.request.to_json() for job in jobs]
            return "add_to_batch", {"id": str(self.id), "jobs": documents}
        nodes = Nodes()
        for job in jobs:
            if job.enqueuer.node_name is None:
                raise Conflict(
                    "a node that a job adds needs a name, which it has again when the job is run"
                    " again: using(node=…)"
                )
            job.enqueuer.add_to_nodes(nodes, job.request)
        return "add_nodes", nodes.documents


def _ids(answer: Json) -> list[UUID]:
    return [UUID(job_id) for job_id in answer]
