"""Enqueuing, typed by the parameters of the function: what `definition.using(…)` returns."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import UUID

from jobforge.errors import Invalid, Json
from jobforge.observability import tracing
from jobforge.payloads.signature import Parameters, Shape
from jobforge.sdk.duration import Duration
from jobforge.sdk.engine_client import EngineClient
from jobforge.sdk.handle import Handle
from jobforge.sdk.options import (
    EMPTY_REQUEST,
    Dedupe,
    OnConflict,
    OnParentFailure,
    Options,
    Parent,
    TenantRef,
    merge_requests,
    read_options,
)
from jobforge.sdk.settings import DefinitionSettings
from jobforge.sdk.workflow_nodes import Node, Nodes, WorkflowItem, get_current_nodes
from jobforge.types.jobs import Enqueued, JobRequest, UniformJobs

P = ParamSpec("P")
R = TypeVar("R")


class EnqueueTarget:
    """The definition that jobs are enqueued for, as far as enqueuing goes."""

    settings: DefinitionSettings
    client: EngineClient

    @property
    def parameters(self) -> Parameters:
        raise NotImplementedError

    @property
    def result(self) -> Shape:
        raise NotImplementedError


class Args(Generic[P, R]):
    """The checked arguments of one job, for `enqueue_many`."""

    __slots__ = ("enqueuer", "payload", "target")

    def __init__(
        self, target: EnqueueTarget, payload: dict[str, Json] | None, maker: "Enqueuer[P, R]"
    ) -> None:
        self.target = target
        self.payload = payload
        self.enqueuer = maker

    @property
    def request(self) -> JobRequest:
        return self.enqueuer.template.with_payload(self.payload)


AnyArgs = Args[..., Any]


def request_from_args(job: AnyArgs | None) -> JobRequest | None:
    return None if job is None else check_args(job).request


def check_args(job: object) -> AnyArgs:
    """Invalid for what `definition.args(…)` did not make, such as the definition itself."""
    if isinstance(job, Args):
        return job
    raise Invalid(f"a job is given as definition.args(…), not as {job!r}", field="jobs")


class Enqueuer(Generic[P, R]):
    """A definition and the options for its next jobs. Holds nothing open; keep it or drop it."""

    def __init__(self, target: EnqueueTarget, options: Options) -> None:
        self._target = target
        self._options = options
        settings = target.settings
        self.template = options.request._replace(definition=settings.key, version=settings.version)
        # A node of a workflow that is being built has no job yet.
        self._has_nodes = any(isinstance(parent, WorkflowItem) for parent in options.after)
        if options.after and not self._has_nodes:
            self.template = self.template._replace(after=list(map(_get_parent_id, options.after)))
        self._can_batch = self.template.can_batch and not options.after
        self._is_plain = options.request[2:] == EMPTY_REQUEST[2:] and not options.after

    @property
    def key(self) -> str:
        """Of the definition."""
        return self._target.settings.key

    @property
    def node_name(self) -> str | None:
        """As `using(node=…)` was given it."""
        return self._options.node

    def using(  # noqa: PLR0913 - one for each thing that can be said
        self,
        *,
        tenant: TenantRef | None = None,
        conn: Any = None,  # noqa: ANN401 - a connection of any of several libraries
        delay: Duration | None = None,
        at: datetime | None = None,
        far_future: bool | None = None,
        key: str | None = None,
        dedupe: Dedupe = None,
        on_conflict: OnConflict | None = None,
        priority: int | None = None,
        queue: str | None = None,
        tags: Sequence[str] | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        expires_in: Duration | None = None,
        expires_at: datetime | None = None,
        limit_key: str | None = None,
        correlation_id: str | None = None,
        after: Parent | Iterable[Parent] | None = None,
        on_parent_failure: OnParentFailure | None = None,
        node: str | None = None,
    ) -> "Enqueuer[P, R]":
        """The same with these options; docs/python.md explains each."""
        options = read_options(
            tenant=tenant,
            conn=conn,
            delay=delay,
            at=at,
            far_future=far_future,
            key=key,
            dedupe=dedupe,
            on_conflict=on_conflict,
            priority=priority,
            queue=queue,
            tags=tags,
            max_attempts=max_attempts,
            timeout=timeout,
            expires_in=expires_in,
            expires_at=expires_at,
            limit_key=limit_key,
            correlation_id=correlation_id,
            after=after,
            on_parent_failure=on_parent_failure,
            node=node,
        )
        return Enqueuer(self._target, options.override(self._options))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Returns once the job is stored; on a connection that was given, once that commits."""
        jobs = self._build_request(self._target.parameters.build_payload(args, kwargs))
        tenant_id, (enqueued,) = self._target.client.enqueue(
            jobs, self._options.tenant, self._options.conn
        )
        return self.build_handle(tenant_id, enqueued)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """As `enqueue`, for async code."""
        jobs = self._build_request(self._target.parameters.build_payload(args, kwargs))
        tenant_id, (enqueued,) = await self._target.client.aenqueue(
            jobs, self._options.tenant, self._options.conn
        )
        return self.build_handle(tenant_id, enqueued)

    def node(self, *args: P.args, **kwargs: P.kwargs) -> Node[R]:
        """A job of the workflow around this call: `with jf.workflow(…):`. Made with the others."""
        request = self.args(*args, **kwargs).request
        return self.add_to_nodes(get_current_nodes(), request)

    def args(self, *args: P.args, **kwargs: P.kwargs) -> Args[P, R]:
        """Arguments for `enqueue_many`; with options of their own after `using(key=…)`."""
        if self._options.tenant is not None or self._options.conn is not None:
            raise Invalid("tenant and conn are those of enqueue_many, not of one of its jobs")
        return Args(self._target, self._target.parameters.build_payload(args, kwargs), self)

    def add_to_nodes(self, nodes: Nodes, request: JobRequest) -> Node[R]:
        """What `args` made, as a node."""
        options = self._options
        (traced,) = tracing.attach_traceparent([request._replace(after=None)])
        return nodes.add(traced, options.node, options.after, self.build_handle)

    def enqueue_many(self, jobs: Iterable[Args[P, R]]) -> list[Handle[R]]:
        """All or none, in one transaction; the handles come in the order of the jobs."""
        tenant_id, enqueued = self._target.client.enqueue(
            self.build_requests(jobs), self._options.tenant, self._options.conn
        )
        return self._handles(tenant_id, enqueued)

    async def aenqueue_many(self, jobs: Iterable[Args[P, R]]) -> list[Handle[R]]:
        """As `enqueue_many`, for async code."""
        tenant_id, enqueued = await self._target.client.aenqueue(
            self.build_requests(jobs), self._options.tenant, self._options.conn
        )
        return self._handles(tenant_id, enqueued)

    def build_requests(self, jobs: Iterable[Args[P, R]]) -> Sequence[JobRequest]:
        """What is sent for jobs that `args` made."""
        given = list(jobs)
        if not all(getattr(job, "target", None) is self._target for job in given):
            raise Invalid(
                f"enqueue_many of {self.key} takes what {self.key}.args(…) makes", field="jobs"
            )
        makers = {job.enqueuer for job in given}
        if len(makers) == 1:
            shared = self._merge_options(makers.pop().template)
            if shared.can_batch:
                return UniformJobs(shared, [job.payload for job in given])
        return [self._merge_options(job.request) for job in given]

    def _build_request(self, payload: dict[str, Json] | None) -> Sequence[JobRequest]:
        """One job, as the sequence that a client takes."""
        if self._can_batch:
            return UniformJobs(self.template, [payload])
        request = self.template.with_payload(payload)
        if self._has_nodes:
            return [request._replace(after=list(map(_get_parent_id, self._options.after)))]
        return [request]

    def _merge_options(self, request: JobRequest) -> JobRequest:
        return request if self._is_plain else merge_requests(request, self.template)

    def build_handle(self, tenant_id: UUID, enqueued: Enqueued) -> Handle[R]:
        """Of a job that was made of such a request."""
        target = self._target
        return Handle(target.client, target.result, tenant_id, enqueued.job_id, enqueued.status)

    def _handles(self, tenant_id: UUID, enqueued: Iterable[Enqueued]) -> list[Handle[R]]:
        client, result = self._target.client, self._target.result
        return [Handle(client, result, tenant_id, job_id, status) for job_id, status in enqueued]


def _get_parent_id(parent: Parent) -> UUID:
    identity = parent if isinstance(parent, UUID) else getattr(parent, "id", None)
    is_job = not isinstance(parent, WorkflowItem) or isinstance(parent, Node)
    if not isinstance(identity, UUID) or not is_job:
        raise Invalid(f"after has jobs, by their ids or handles, not {parent!r}", field="after")
    return identity
