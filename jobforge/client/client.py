"""`Client(server, key)`: the operations of the engine, over HTTP, under the same names.

A method is a builder of jobforge.calls with somebody to run it, so arguments and answers are those
that it has on a database. There are more calls than methods here: `client.run(call)` takes any.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cached_property
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload
from uuid import UUID

from jobforge import calls
from jobforge.artifacts.marker import Of
from jobforge.calls import Call
from jobforge.client import artifact, requests, stream
from jobforge.client.address import server_address
from jobforge.client.request import Request
from jobforge.client.stream import StreamEvent
from jobforge.client.transport import AsyncTransport, Transport

P = ParamSpec("P")
T = TypeVar("T")


class Method(Generic[P, T]):
    """A method of clients: at once for a Client, to be awaited for an AsyncClient."""

    def __init__(self, build: Callable[P, Call[T]] | Callable[P, Request[T]]) -> None:
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


class Operations:
    """What both clients can do, and what they are told."""

    def __init__(  # noqa: PLR0913 - the settings of a client
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

    enqueue_job = Method(calls.enqueue_job)
    enqueue_jobs = Method(calls.enqueue_jobs)
    get_job = Method(calls.get_job)
    list_jobs = Method(calls.list_jobs)
    list_notes = Method(calls.list_notes)
    list_steps = Method(calls.list_steps)
    explain_job = Method(calls.explain_job)
    cancel_job = Method(calls.cancel_job)
    retry_job = Method(calls.retry_job)
    erase_job = Method(calls.erase_job)
    reschedule_job = Method(calls.reschedule_job)
    edit_job = Method(calls.edit_job)
    summarize = Method(calls.summarize)

    list_failures = Method(calls.list_failures)
    annotate_failure = Method(calls.annotate_failure)
    count_jobs = Method(calls.count_jobs)
    start_operation = Method(calls.start_operation)
    get_operation = Method(calls.get_operation)
    list_operations = Method(calls.list_operations)
    cancel_operation = Method(calls.cancel_operation)

    emit_event = Method(calls.emit_event)
    get_event = Method(calls.get_event)
    list_events = Method(calls.list_events)
    replay_event = Method(calls.replay_event)
    list_event_deliveries = Method(calls.list_event_deliveries)
    try_trigger = Method(requests.try_trigger)

    create_trigger = Method(calls.create_trigger)
    edit_trigger = Method(calls.edit_trigger)
    delete_trigger = Method(calls.delete_trigger)
    get_trigger = Method(calls.get_trigger)
    list_triggers = Method(calls.list_triggers)
    run_trigger = Method(calls.run_trigger)
    backfill_trigger = Method(calls.backfill_trigger)
    list_firings = Method(calls.list_firings)

    enqueue_workflow = Method(calls.enqueue_workflow)
    get_workflow = Method(calls.get_workflow)
    list_workflows = Method(calls.list_workflows)
    cancel_workflow = Method(calls.cancel_workflow)
    retry_workflow = Method(calls.retry_workflow)
    create_batch = Method(calls.create_batch)
    add_to_batch = Method(calls.add_to_batch)
    close_batch = Method(calls.close_batch)
    get_batch = Method(calls.get_batch)
    list_batches = Method(calls.list_batches)
    cancel_batch = Method(calls.cancel_batch)

    list_definitions = Method(calls.list_definitions)
    get_definition = Method(calls.get_definition)
    put_definition = Method(calls.put_definition)
    override_definition = Method(calls.override_definition)
    pause_definition = Method(calls.pause_definition)
    resume_definition = Method(calls.resume_definition)

    list_queues = Method(calls.list_queues)
    list_holders = Method(calls.list_holders)
    put_queue = Method(calls.put_queue)
    pause_queue = Method(calls.pause_queue)
    resume_queue = Method(calls.resume_queue)

    list_workers = Method(calls.list_workers)
    drain_worker = Method(calls.drain_worker)
    stop_worker = Method(calls.stop_worker)

    list_tenants = Method(calls.list_tenants)
    find_tenant = Method(calls.find_tenant)
    put_tenant = Method(calls.put_tenant)
    pause_tenant = Method(calls.pause_tenant)
    resume_tenant = Method(calls.resume_tenant)
    delete_tenant = Method(calls.delete_tenant)

    create_key = Method(requests.create_key)
    rotate_key = Method(requests.rotate_key)
    revoke_api_key = Method(calls.revoke_api_key)
    list_api_keys = Method(calls.list_api_keys)
    whoami = Method(requests.whoami)
    create_webhook = Method(requests.create_webhook)
    rotate_webhook = Method(requests.rotate_webhook)
    get_webhook = Method(calls.get_webhook)
    list_webhooks = Method(calls.list_webhooks)
    edit_webhook = Method(calls.edit_webhook)
    delete_webhook = Method(calls.delete_webhook)
    test_webhook = Method(calls.test_webhook)
    list_deliveries = Method(calls.list_deliveries)
    redeliver = Method(calls.redeliver)

    list_audit = Method(calls.list_audit)
    get_statistics = Method(calls.get_statistics)
    meter_tenants = Method(calls.meter_tenants)


class Client(Operations):
    """Any thread may use it. `tenant`, an id or a slug, is for keys that belong to none.

    What was lost on the way is sent again, up to `retries` times, where that does no harm; jobs
    are made under an idempotency key. `trust_env` takes proxies and certificates from the
    environment.
    """

    @cached_property
    def _transport(self) -> Transport:
        return Transport(self._address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, asked: Call[T] | Request[T]) -> T:
        return self._transport.run(asked)

    def open_artifact(
        self, job_id: UUID, *, of: Of | None = None
    ) -> AbstractContextManager[Iterator[bytes]]:
        """What a job made, piece by piece, within a `with`; or its large result or payload."""
        return artifact.pieces(self._transport, artifact.Wanted(job_id, of))

    def stream(
        self,
        *,
        jobs: Sequence[UUID] = (),
        definitions: Sequence[str] = (),
        states: Sequence[str] = (),
        after: str | None = None,
    ) -> Iterator[StreamEvent]:
        """What happens to jobs, for as long as it is read; `after` is the id of the last event."""
        return stream.read(self._transport, stream.Reading(jobs, definitions, states, after))

    def close(self) -> None:
        self._transport.close()


class AsyncClient(Operations):
    """As Client, for async code; of one event loop."""

    @cached_property
    def _transport(self) -> AsyncTransport:
        return AsyncTransport(self._address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, asked: Call[T] | Request[T]) -> T:
        return await self._transport.run(asked)

    def open_artifact(
        self, job_id: UUID, *, of: Of | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return artifact.apieces(self._transport, artifact.Wanted(job_id, of))

    def stream(
        self,
        *,
        jobs: Sequence[UUID] = (),
        definitions: Sequence[str] = (),
        states: Sequence[str] = (),
        after: str | None = None,
    ) -> AsyncIterator[StreamEvent]:
        return stream.aread(self._transport, stream.Reading(jobs, definitions, states, after))

    async def close(self) -> None:
        await self._transport.close()
