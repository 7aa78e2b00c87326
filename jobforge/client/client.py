"""`Client(server, key)`: the engine's operations over HTTP, under the same names.

Each method builds a call of jobforge.calls and runs it, so its arguments and results are the same
as on a database. Not every call has a method: `client.run(call)` accepts any.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload
from uuid import UUID

from jobforge import calls
from jobforge.artifacts.artifact_reference import ArtifactSource
from jobforge.calls import Call
from jobforge.client import artifact, http_only_requests, stream
from jobforge.client.address import server_address
from jobforge.client.request import ApiRequest
from jobforge.client.stream import StreamEvent
from jobforge.client.transport import AsyncTransport, Transport
from jobforge.security import api_keys
from jobforge.types.job_history import JobEvent

P = ParamSpec("P")
T = TypeVar("T")


class ClientMethod(Generic[P, T]):
    """A method of both clients: blocking on Client, awaitable on AsyncClient."""

    def __init__(self, build: Callable[P, Call[T]] | Callable[P, ApiRequest[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: type) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    def __get__(self, client: "Client | AsyncClient | None", owner: type) -> Any:
        if client is None:
            return self

        def ask(*args: P.args, **kwargs: P.kwargs) -> T | Awaitable[T]:
            return client.run(self._build(*args, **kwargs))

        return ask


class ClientOperations:
    """The constructor and methods that both clients share."""

    def __init__(  # noqa: PLR0913 - one parameter per setting
        self,
        server: str,
        key: str,
        *,
        tenant: UUID | str | None = None,
        timeout: float = 30,
        retries: int = 4,
        trust_env: bool = False,
    ) -> None:
        self._address = server_address(
            server, key, tenant=tenant, timeout_s=timeout, retries=retries, trust_env=trust_env
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._address.url}>"

    enqueue_job = ClientMethod(calls.enqueue_job)
    enqueue_jobs = ClientMethod(calls.enqueue_jobs)
    get_job = ClientMethod(calls.get_job)
    list_jobs = ClientMethod(calls.list_jobs)
    list_notes = ClientMethod(calls.list_notes)
    list_steps = ClientMethod(calls.list_steps)
    explain_job = ClientMethod(calls.explain_job)
    cancel_job = ClientMethod(calls.cancel_job)
    retry_job = ClientMethod(calls.retry_job)
    erase_job = ClientMethod(calls.erase_job)
    reschedule_job = ClientMethod(calls.reschedule_job)
    edit_job = ClientMethod(calls.edit_job)
    summarize = ClientMethod(calls.summarize)

    list_failures = ClientMethod(calls.list_failures)
    annotate_failure = ClientMethod(calls.annotate_failure)
    count_jobs = ClientMethod(calls.count_jobs)
    start_operation = ClientMethod(calls.start_operation)
    get_operation = ClientMethod(calls.get_operation)
    list_operations = ClientMethod(calls.list_operations)
    cancel_operation = ClientMethod(calls.cancel_operation)

    emit_event = ClientMethod(calls.emit_event)
    get_event = ClientMethod(calls.get_event)
    list_events = ClientMethod(calls.list_events)
    replay_event = ClientMethod(calls.replay_event)
    list_event_deliveries = ClientMethod(calls.list_event_deliveries)
    try_trigger = ClientMethod(http_only_requests.try_trigger)

    create_trigger = ClientMethod(calls.create_trigger)
    edit_trigger = ClientMethod(calls.edit_trigger)
    delete_trigger = ClientMethod(calls.delete_trigger)
    get_trigger = ClientMethod(calls.get_trigger)
    list_triggers = ClientMethod(calls.list_triggers)
    run_trigger = ClientMethod(calls.run_trigger)
    backfill_trigger = ClientMethod(calls.backfill_trigger)
    list_firings = ClientMethod(calls.list_firings)

    enqueue_workflow = ClientMethod(calls.enqueue_workflow)
    get_workflow = ClientMethod(calls.get_workflow)
    list_workflows = ClientMethod(calls.list_workflows)
    cancel_workflow = ClientMethod(calls.cancel_workflow)
    retry_workflow = ClientMethod(calls.retry_workflow)
    create_batch = ClientMethod(calls.create_batch)
    add_to_batch = ClientMethod(calls.add_to_batch)
    close_batch = ClientMethod(calls.close_batch)
    get_batch = ClientMethod(calls.get_batch)
    list_batches = ClientMethod(calls.list_batches)
    cancel_batch = ClientMethod(calls.cancel_batch)

    list_definitions = ClientMethod(calls.list_definitions)
    get_definition = ClientMethod(calls.get_definition)
    put_definition = ClientMethod(calls.put_definition)
    override_definition = ClientMethod(calls.override_definition)
    pause_definition = ClientMethod(calls.pause_definition)
    resume_definition = ClientMethod(calls.resume_definition)

    list_queues = ClientMethod(calls.list_queues)
    list_holders = ClientMethod(calls.list_holders)
    put_queue = ClientMethod(calls.put_queue)
    pause_queue = ClientMethod(calls.pause_queue)
    resume_queue = ClientMethod(calls.resume_queue)

    list_workers = ClientMethod(calls.list_workers)
    drain_worker = ClientMethod(calls.drain_worker)
    stop_worker = ClientMethod(calls.stop_worker)

    list_tenants = ClientMethod(calls.list_tenants)
    find_tenant = ClientMethod(calls.find_tenant)
    put_tenant = ClientMethod(calls.put_tenant)
    pause_tenant = ClientMethod(calls.pause_tenant)
    resume_tenant = ClientMethod(calls.resume_tenant)
    delete_tenant = ClientMethod(calls.delete_tenant)

    create_key = ClientMethod(api_keys.create_key)
    rotate_key = ClientMethod(http_only_requests.rotate_key)
    revoke_api_key = ClientMethod(calls.revoke_api_key)
    list_api_keys = ClientMethod(calls.list_api_keys)
    whoami = ClientMethod(http_only_requests.whoami)
    create_webhook = ClientMethod(http_only_requests.create_webhook)
    rotate_webhook = ClientMethod(http_only_requests.rotate_webhook)
    get_webhook = ClientMethod(calls.get_webhook)
    list_webhooks = ClientMethod(calls.list_webhooks)
    edit_webhook = ClientMethod(calls.edit_webhook)
    delete_webhook = ClientMethod(calls.delete_webhook)
    test_webhook = ClientMethod(calls.test_webhook)
    list_deliveries = ClientMethod(calls.list_deliveries)
    redeliver = ClientMethod(calls.redeliver)

    list_audit = ClientMethod(calls.list_audit)
    get_statistics = ClientMethod(calls.get_statistics)
    meter_tenants = ClientMethod(calls.meter_tenants)


class Client(ClientOperations):
    """A synchronous, thread-safe client. Set `tenant` (ID or slug) if the key has no tenant.

    Failed requests are sent again up to `retries` times if that is safe; enqueue requests carry an
    idempotency key. `trust_env` reads proxies and certificates from the environment.
    """

    @cached_property
    def _transport(self) -> Transport:
        return Transport(self._address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, call: Call[T] | ApiRequest[T]) -> T:
        """Send a call of `jobforge.calls` and return its result."""
        return self._transport.run(call)

    def open_artifact(
        self, job_id: UUID, *, of: ArtifactSource | None = None
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Open a job's artifact, large result or payload: a `with` block yields its chunks."""
        return artifact.open_chunks(self._transport, artifact.ArtifactRequest(job_id, of))

    def stream(
        self,
        *,
        jobs: Sequence[UUID] = (),
        definitions: Sequence[str] = (),
        states: Sequence[str] = (),
        after: str | None = None,
    ) -> Iterator[StreamEvent]:
        """Yield events of jobs until the caller stops. `after` is the last event's ID."""
        reading = stream.stream_jobs(jobs, definitions, states, after)
        return stream.read(self._transport, reading)

    def follow_job(self, job_id: UUID, *, after: datetime | None = None) -> Iterator[JobEvent]:
        """Yield a job's log lines, progress and events, past and new, until the job has finished.

        The last one has the kind `end`; its data has the job's final state. `after` is the time of
        the last one that you already have.
        """
        return stream.follow(self._transport, stream.JobLogState(job_id, after))

    def close(self) -> None:
        """Close the connections to the server."""
        self._transport.close()


class AsyncClient(ClientOperations):
    """The async version of Client, with the same methods, for one event loop."""

    @cached_property
    def _transport(self) -> AsyncTransport:
        return AsyncTransport(self._address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, call: Call[T] | ApiRequest[T]) -> T:
        """Send a call of `jobforge.calls` and return its result."""
        return await self._transport.run(call)

    def open_artifact(
        self, job_id: UUID, *, of: ArtifactSource | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Like `Client.open_artifact`, with `async with`."""
        return artifact.aopen_chunks(self._transport, artifact.ArtifactRequest(job_id, of))

    def stream(
        self,
        *,
        jobs: Sequence[UUID] = (),
        definitions: Sequence[str] = (),
        states: Sequence[str] = (),
        after: str | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """Like `Client.stream`, with `async for`."""
        reading = stream.stream_jobs(jobs, definitions, states, after)
        return stream.aread(self._transport, reading)

    def follow_job(self, job_id: UUID, *, after: datetime | None = None) -> AsyncIterator[JobEvent]:
        """Like `Client.follow_job`, with `async for`."""
        return stream.afollow(self._transport, stream.JobLogState(job_id, after))

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._transport.close()
