"""The nodes that a `with jf.workflow(…)` block collects while a workflow is built.

A node has a name and parents, and a job once the workflow is enqueued. workflow.py sends the
workflow to the engine.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Generic, TypeVar
from uuid import UUID

from jobforge.errors import Conflict, Invalid, Json
from jobforge.sdk.handle import Handle
from jobforge.types.jobs import Enqueued, EnqueueStatus, JobRequest

R_co = TypeVar("R_co", covariant=True)

MakeHandle = Callable[[UUID, Enqueued], Handle[Any]]


class WorkflowItem:
    """An item of a workflow that other items can depend on: a job or an inner workflow."""

    __slots__ = ("container", "name")

    def __init__(self, container: "Nodes", name: str) -> None:
        self.container = container
        self.name = name


class Node(WorkflowItem, Generic[R_co]):
    """A job of a workflow. It has a handle once the workflow is enqueued."""

    __slots__ = ("_handle",)

    def __init__(self, container: "Nodes", name: str) -> None:
        super().__init__(container, name)
        self._handle: Handle[R_co] | None = None

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    @property
    def handle(self) -> Handle[R_co]:
        """The handle of the job. Raises Conflict before the workflow is enqueued."""
        if self._handle is None:
            raise Conflict(f"Node '{self.name}' has no job before its workflow is enqueued")
        return self._handle

    @property
    def id(self) -> UUID:
        """The job's ID."""
        return self.handle.id

    def set_handle(self, handle: Handle[R_co]) -> None:
        self._handle = handle


class Nodes:
    """The items of one workflow, in the order of their declaration."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Json]] = []
        self._jobs: list[tuple[Node[Any], MakeHandle]] = []
        self._inner: list[tuple[str, Nodes]] = []
        self._names: set[str] = set()
        self._last: Counter[str] = Counter()  # number of the last node with this base name

    def add(
        self,
        request: JobRequest,
        name: str | None,
        after: Iterable[object],
        make_handle: MakeHandle,
    ) -> Node[Any]:
        if request.key is not None:
            raise Invalid("A node cannot have an idempotency key", field="key")
        node: Node[Any] = Node(self, self._pick_name(name, request.definition))
        self._jobs.append((node, make_handle))
        self.documents.append(self._document(node.name, after) | request.to_json())
        return node

    def add_inner(
        self, inner: "Nodes", name: str, after: Iterable[object], document: dict[str, Json]
    ) -> None:
        self._inner.append((name, inner))
        self.documents.append(self._document(name, after) | document)

    def reserve_name(self, name: str) -> str:
        """Return a name for a node that is added later; append a number to a name in use."""
        return self._pick_name(None, name)

    def assign_handles(self, tenant_id: UUID, jobs: dict[str, UUID], prefix: str = "") -> None:
        """Assign the handles of all nodes from their job IDs by path."""
        for node, make_handle in self._jobs:
            enqueued = Enqueued(jobs[prefix + node.name], EnqueueStatus.CREATED)
            node.set_handle(make_handle(tenant_id, enqueued))
        for name, inner in self._inner:
            inner.assign_handles(tenant_id, jobs, f"{prefix}{name}/")

    def _pick_name(self, given: str | None, default: str) -> str:
        name = given or default
        while name in self._names:
            if given is not None:
                raise Invalid(f"Node '{name}' already exists", field="node")
            self._last[default] += 1
            name = f"{default}-{self._last[default] + 1}"
        self._names.add(name)
        return name

    def _document(self, name: str, after: Iterable[object]) -> dict[str, Json]:
        names = [self._name_of(parent, name) for parent in after]
        return {"name": name, "after": names} if names else {"name": name}

    def _name_of(self, parent: object, child: str) -> str:
        if isinstance(parent, WorkflowItem) and parent.container is self:
            return parent.name
        raise Invalid(
            f"Node '{child}' can only come after nodes of the same workflow, not after {parent!r}",
            field="after",
        )


# Set within `with jf.workflow(…)`.
CURRENT_NODES: ContextVar[Nodes | None] = ContextVar("jobforge_workflow", default=None)


def get_current_nodes() -> Nodes:
    """Return the nodes of the enclosing workflow block; raise Conflict outside of one."""
    nodes = CURRENT_NODES.get()
    if nodes is None:
        raise Conflict("Create nodes inside a workflow: with jf.workflow(…):")
    return nodes
