"""Enqueues jobs with arguments typed by the function's parameters: `definition.using(…)`."""

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack
from uuid import UUID

from jobforge.errors import Invalid, Json
from jobforge.observability import tracing
from jobforge.payloads.signature import Parameters, Shape
from jobforge.sdk.definition_settings import DefinitionSettings
from jobforge.sdk.engine_client import EngineClient, TenantEnqueued, complete
from jobforge.sdk.enqueue_options import (
    EMPTY_REQUEST,
    EnqueueOptions,
    Options,
    Parent,
    merge_requests,
    read_options,
)
from jobforge.sdk.handle import Handle
from jobforge.sdk.pools import Sender
from jobforge.sdk.workflow_nodes import Node, Nodes, WorkflowItem, get_current_nodes
from jobforge.types.jobs import Enqueued, JobRequest, UniformJobs

P = ParamSpec("P")
R = TypeVar("R")


class EnqueueTarget(Protocol):
    """The parts of a definition that enqueuing needs."""

    settings: DefinitionSettings
    client: EngineClient

    @property
    def parameters(self) -> Parameters: ...

    @property
    def result(self) -> Shape: ...


class Args(Generic[P, R]):
    """The validated arguments of one job, for `enqueue_many`."""

    __slots__ = ("enqueuer", "payload", "target")

    def __init__(
        self, target: EnqueueTarget, payload: dict[str, Json] | None, enqueuer: "Enqueuer[P, R]"
    ) -> None:
        self.target = target
        self.payload = payload
        self.enqueuer = enqueuer

    @property
    def request(self) -> JobRequest:
        return self.enqueuer.template.with_payload(self.payload)


AnyArgs = Args[..., Any]


def request_from_args(job: AnyArgs | None) -> JobRequest | None:
    return None if job is None else check_args(job).request


def check_args(job: object) -> AnyArgs:
    """Return the job if `definition.args(…)` created it; raise Invalid for anything else."""
    if isinstance(job, Args):
        return job
    raise Invalid(f"Each job must be definition.args(…), not {job!r}", field="jobs")


class Enqueuer(Generic[P, R]):
    """A definition and the options for its next jobs. Holds no connection; reusable."""

    def __init__(self, target: EnqueueTarget, options: Options) -> None:
        self._target = target
        self._options = options
        settings = target.settings
        self.template = options.request._replace(definition=settings.key, version=settings.version)
        # A node has no job ID until its workflow is enqueued.
        self._has_nodes = any(isinstance(parent, WorkflowItem) for parent in options.after)
        if options.after and not self._has_nodes:
            self.template = self.template._replace(after=list(map(_get_parent_id, options.after)))
        self._can_batch = self.template.can_batch and not options.after
        self._is_plain = options.request[2:] == EMPTY_REQUEST[2:] and not options.after

    @property
    def key(self) -> str:
        """The key of the definition."""
        return self._target.settings.key

    @property
    def node_name(self) -> str | None:
        """The name from `using(node=…)`, or None."""
        return self._options.node

    def using(self, **options: Unpack[EnqueueOptions]) -> "Enqueuer[P, R]":
        """Return an enqueuer that has these options in addition to those of this one."""
        return Enqueuer(self._target, read_options(options).override(self._options))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a job and return its handle.

        The job is committed on return; with `using(conn=…)`, when the transaction of that
        connection commits.
        """
        jobs = self._build_request(self._target.parameters.build_payload(args, kwargs))
        tenant_id, (enqueued,) = complete(self._send(self._target.client.blocking, jobs))
        return self.build_handle(tenant_id, enqueued)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Like `enqueue`, for async code."""
        jobs = self._build_request(self._target.parameters.build_payload(args, kwargs))
        tenant_id, (enqueued,) = await self._send(self._target.client.awaiting, jobs)
        return self.build_handle(tenant_id, enqueued)

    def node(self, *args: P.args, **kwargs: P.kwargs) -> Node[R]:
        """Add a job to the workflow of the enclosing `with jf.workflow(…)` block.

        The end of the block creates it together with the other nodes.
        """
        request = self.args(*args, **kwargs).request
        return self.add_to_nodes(get_current_nodes(), request)

    def args(self, *args: P.args, **kwargs: P.kwargs) -> Args[P, R]:
        """Return arguments for `enqueue_many`; use `using(key=…).args(…)` for per-job options."""
        if self._options.tenant is not None or self._options.conn is not None:
            raise Invalid("Pass tenant and conn to enqueue_many, not to one of its jobs")
        return Args(self._target, self._target.parameters.build_payload(args, kwargs), self)

    def add_to_nodes(self, nodes: Nodes, request: JobRequest) -> Node[R]:
        """Add a request from `args` as a node of a workflow."""
        options = self._options
        (traced,) = tracing.attach_traceparent([request._replace(after=None)])
        return nodes.add(traced, options.node, options.after, self.build_handle)

    def enqueue_many(self, jobs: Iterable[Args[P, R]]) -> list[Handle[R]]:
        """Enqueue all jobs or none, in one transaction. Returns handles in the same order."""
        operation = self._send(self._target.client.blocking, self.build_requests(jobs))
        return self._handles(*complete(operation))

    async def aenqueue_many(self, jobs: Iterable[Args[P, R]]) -> list[Handle[R]]:
        """Like `enqueue_many`, for async code."""
        operation = self._send(self._target.client.awaiting, self.build_requests(jobs))
        return self._handles(*await operation)

    def build_requests(self, jobs: Iterable[Args[P, R]]) -> Sequence[JobRequest]:
        """Return the requests for jobs from `args`; uniform jobs share one template."""
        all_args = list(jobs)
        if not all(getattr(job, "target", None) is self._target for job in all_args):
            raise Invalid(
                f"{self.key}.enqueue_many accepts only jobs from {self.key}.args(…)", field="jobs"
            )
        enqueuers = {job.enqueuer for job in all_args}
        if len(enqueuers) == 1:
            template = self._merge_options(enqueuers.pop().template)
            if template.can_batch:
                return UniformJobs(template, [job.payload for job in all_args])
        return [self._merge_options(job.request) for job in all_args]

    def _send(
        self, sender: Sender, jobs: Sequence[JobRequest]
    ) -> Coroutine[Any, Any, TenantEnqueued]:
        options = self._options
        return self._target.client.enqueue(sender, jobs, options.tenant, options.conn)

    def _build_request(self, payload: dict[str, Json] | None) -> Sequence[JobRequest]:
        """Return one job as a sequence, which EngineClient takes."""
        if self._can_batch:
            return UniformJobs(self.template, [payload])
        request = self.template.with_payload(payload)
        if self._has_nodes:
            return [request._replace(after=list(map(_get_parent_id, self._options.after)))]
        return [request]

    def _merge_options(self, request: JobRequest) -> JobRequest:
        return request if self._is_plain else merge_requests(request, self.template)

    def build_handle(self, tenant_id: UUID, enqueued: Enqueued) -> Handle[R]:
        """Return the handle of a job that was created from a request of this enqueuer."""
        target = self._target
        return Handle(target.client, target.result, tenant_id, enqueued.job_id, enqueued.status)

    def _handles(self, tenant_id: UUID, enqueued: Iterable[Enqueued]) -> list[Handle[R]]:
        client, result = self._target.client, self._target.result
        return [Handle(client, result, tenant_id, job_id, status) for job_id, status in enqueued]


def _get_parent_id(parent: Parent) -> UUID:
    identity = parent if isinstance(parent, UUID) else getattr(parent, "id", None)
    is_job = not isinstance(parent, WorkflowItem) or isinstance(parent, Node)
    if not isinstance(identity, UUID) or not is_job:
        raise Invalid(f"after must be job IDs or handles, not {parent!r}", field="after")
    return identity
