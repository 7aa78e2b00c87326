"""The app, `jf = JobForge()`: its definitions and its connection to the engine.

Nothing is read, opened or sent before first use. So any process can import a module that contains
an app: a web server, a worker, or the process that forks jobs.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import update_wrapper
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import ConfigError, Conflict, Denied, Json
from jobforge.payloads.signature import ANYTHING
from jobforge.sdk.batch import Batch, BatchHandle, BatchOptions
from jobforge.sdk.call_context import TenantScope
from jobforge.sdk.command import Command
from jobforge.sdk.decorator import JobDecorator
from jobforge.sdk.definition import CallableDefinition, Definition
from jobforge.sdk.definition_settings import (
    CommonSettings,
    DefinitionSettings,
    read_settings,
    refuse_unknown,
)
from jobforge.sdk.emit import EmitOptions, emit_event
from jobforge.sdk.engine_client import EngineClient, complete
from jobforge.sdk.engine_location import AppLocation, DatabaseAddress
from jobforge.sdk.enqueue import Enqueuer
from jobforge.sdk.enqueue_options import Options, TenantRef
from jobforge.sdk.handle import Handle
from jobforge.sdk.hooks import Hook, Hooks
from jobforge.sdk.job_group import WorkflowOptions
from jobforge.sdk.lifecycle import L, Lifecycle, add_sync_hook
from jobforge.sdk.middleware import Middleware, MiddlewareDecorator
from jobforge.sdk.pools import Pools
from jobforge.sdk.transaction import Transaction
from jobforge.sdk.workflow import Workflow, WorkflowHandle
from jobforge.types.jobs import EnqueueStatus

if TYPE_CHECKING:
    from pydantic import BaseModel

    from jobforge.artifacts import Artifacts

H = TypeVar("H", bound=Hook)
D = TypeVar("D", bound=Definition[..., Any])

_log = logging.getLogger("jobforge")


def build_registration_call(definition: Definition[..., Any]) -> Call[None]:
    """Return the call that registers a definition in the database."""
    settings = definition.settings
    return calls.put_definition(settings.key, settings.version, definition.registration())


class JobForge:
    """An app: its job definitions, and the connections over which it enqueues jobs."""

    def __init__(  # noqa: PLR0913 - one parameter per setting
        self,
        database_url: str | None = None,
        *,
        server: str | None = None,
        key: str | None = None,
        tenant: TenantRef | None = None,
        behind_pooler: bool | None = None,
        django: str | None = None,
        pool_size: int = 4,
    ) -> None:
        """Create an app. Omitted arguments come from the settings; see docs/configuration.md.

        With `server` and its `key`, the app creates jobs over HTTP and needs no database. `django`
        is the alias of a Django database, whose connections the app then uses.
        """
        if server is not None and (database_url is not None or django is not None):
            raise ConfigError("server and database can't be used together", field="server")
        self._location = location = AppLocation(
            database_url,
            has_database=database_url is not None or django is not None,
            behind_pooler=behind_pooler,
            server=server,
            key=key,
            tenant=tenant,
        )
        self._pool_size = pool_size
        self._own_definitions: dict[str, Definition[..., Any]] = {}
        self._all_definitions: Mapping[str, Definition[..., Any]] = MappingProxyType({})
        self._hooks = Hooks(self._refresh)
        self.lifecycle = Lifecycle()
        self.client = EngineClient(
            Pools(location.find_address, size=pool_size, find_server=location.find_server),
            tenant=location.default_tenant,
            artifacts=location.artifacts,
            django=django,
        )
        self.job = JobDecorator(self._add_function)
        self.middleware = MiddlewareDecorator(self._add_middleware)

    @property
    def definitions(self) -> Mapping[str, Definition[..., Any]]:
        """All definitions by key, including those that run hooks."""
        return self._all_definitions

    def command(
        self,
        key: str,
        *,
        argv: Sequence[str],
        parameters: "dict[str, Json] | type[BaseModel] | None" = None,
        returns_stdout: bool = False,
        **settings: Unpack[CommonSettings],
    ) -> Command:
        """Declare a definition whose jobs run a program (docs/commands.md).

        `argv` is the program with its arguments, and `parameters` describes the payload. With
        `returns_stdout`, the result contains what the program printed. The other settings are the
        same as those of `@jf.job`.
        """
        refuse_unknown(settings, CommonSettings, "command")
        own = read_settings(key=key, **settings)
        return self._add_definition(
            Command(
                *(own, argv, parameters, self.client, self._hooks), returns_stdout=returns_stdout
            )
        )

    def connector(self, key: str) -> Enqueuer[..., Json]:
        """Return an enqueuer for a connector, such as `jf.connector("http.request")`.

        Any worker serves connectors. docs/connectors.md describes the payload fields.
        """
        from jobforge.connectors import connector_target  # noqa: PLC0415 - few apps need it

        return Enqueuer(connector_target(key, self.client), Options())

    def tenant(self, tenant: TenantRef) -> TenantScope:
        """Set the default tenant for jobs that are enqueued in the `with` block."""
        return TenantScope(tenant)

    def transaction(self, tenant: TenantRef | None = None) -> "Transaction":
        """Open a transaction for the tenant on a psycopg connection: `with` or `async with`.

        The transaction sets `app.tenant_id`, which policies of row-level security can read. To
        enqueue jobs in the transaction, pass the connection to `using(conn=…)`. The transaction is
        committed at the end of the block, and rolled back if the block raises an error.
        """
        return Transaction(self.client, tenant)

    def emit(
        self, name: str, data: dict[str, Json] | None = None, **options: Unpack[EmitOptions]
    ) -> UUID:
        """Emit an event and return its ID. Event triggers create jobs from it.

        With `conn`, the event is part of that connection's transaction. With `key`, each trigger
        creates one job for all events with this name and key. See docs/events.md.
        """
        return complete(emit_event(self.client, self.client.blocking, name, data, options))

    async def aemit(
        self, name: str, data: dict[str, Json] | None = None, **options: Unpack[EmitOptions]
    ) -> UUID:
        """Like `emit`, for async code."""
        return await emit_event(self.client, self.client.awaiting, name, data, options)

    def workflow(self, name: str, **options: Unpack[WorkflowOptions]) -> Workflow:
        """Build a workflow: call `definition.node(…)` within its `with` or `async with` block.

        The end of the block creates all jobs together, in the transaction of `conn` if you pass it.
        Jobs can read `input`. `correlation_id` is passed on to all jobs. The job of `on_success`,
        `on_failure` or `on_complete` is enqueued when the workflow finishes with that outcome.
        See docs/workflows.md.
        """
        return Workflow(self.client, name, **options)

    def batch(self, **options: Unpack[BatchOptions]) -> Batch:
        """Build a batch: call `batch.add(definition.args(…))` within its `with` block.

        The engine enqueues `on_success`, `on_failure` and `on_complete` once each, when the batch
        finishes with that outcome. See docs/workflows.md.
        """
        return Batch(self.client, **options)

    def job_of(self, job_id: UUID, *, tenant: TenantRef | None = None) -> Handle[Json]:
        """Return a handle for an existing job. Its result is the stored JSON, without a type.

        The job is first read when you use the handle: then a job that does not exist raises
        NotFound.
        """
        return self._build_handle(self._find_tenant(tenant), job_id)

    async def ajob_of(self, job_id: UUID, *, tenant: TenantRef | None = None) -> Handle[Json]:
        """Like `job_of`, for async code."""
        return self._build_handle(await self._afind_tenant(tenant), job_id)

    def workflow_of(self, workflow_id: UUID, *, tenant: TenantRef | None = None) -> WorkflowHandle:
        """Return a handle for an existing workflow."""
        return WorkflowHandle(self.client, self._find_tenant(tenant), workflow_id)

    async def aworkflow_of(
        self, workflow_id: UUID, *, tenant: TenantRef | None = None
    ) -> WorkflowHandle:
        """Like `workflow_of`, for async code."""
        return WorkflowHandle(self.client, await self._afind_tenant(tenant), workflow_id)

    def batch_of(self, batch_id: UUID, *, tenant: TenantRef | None = None) -> BatchHandle:
        """Return a handle for an existing batch."""
        return BatchHandle(self.client, self._find_tenant(tenant), batch_id)

    async def abatch_of(self, batch_id: UUID, *, tenant: TenantRef | None = None) -> BatchHandle:
        """Like `batch_of`, for async code."""
        return BatchHandle(self.client, await self._afind_tenant(tenant), batch_id)

    def on_start(self, hook: H) -> H:
        """Register `hook(ctx)`, which runs before the function in every attempt of any job."""
        return self._add_hook(self._hooks.start, hook)

    def on_success(self, hook: H) -> H:
        """Register `hook(ctx, result)`, which runs after any job has succeeded."""
        return self._add_hook(self._hooks.success, hook)

    def on_fail(self, hook: H) -> H:
        """Register `hook(ctx, error: dict)`, which runs after any job has become dead."""
        return self._add_hook(self._hooks.fail, hook)

    def on_end(self, hook: H) -> H:
        """Register `hook(ctx, state)`, which runs after any job has finished in any state."""
        return self._add_hook(self._hooks.end, hook)

    def on_worker_start(self, hook: L) -> L:
        """Register `hook()`, which runs in a worker before its first job."""
        self.lifecycle.worker_start.append(hook)
        return hook

    def on_worker_stop(self, hook: L) -> L:
        """Register `hook()`, which runs in a worker after its last job."""
        self.lifecycle.worker_stop.append(hook)
        return hook

    def on_zygote_start(self, hook: L) -> L:
        """Register `hook()`, which runs once in the process from which jobs are forked."""
        return add_sync_hook(self.lifecycle.processes.zygote_start, hook)

    def on_process_start(self, hook: L) -> L:
        """Register `hook()`, which runs in the process of each isolated job before the handler."""
        return add_sync_hook(self.lifecycle.processes.start, hook)

    def on_process_stop(self, hook: L) -> L:
        """Register `hook()`, which runs in the process of each isolated job after the handler."""
        return add_sync_hook(self.lifecycle.processes.stop, hook)

    def registrations(self) -> list[Call[None]]:
        """Return the calls that register all definitions in the database."""
        # Register the definitions that run hooks first: a finished job enqueues their jobs.
        ordered = sorted(
            self.definitions.values(), key=lambda definition: definition.settings.hooks
        )
        return [build_registration_call(definition) for definition in ordered]

    def build_trigger_declaration(self) -> Call[None]:
        """Return the call that updates the triggers in the database to those of the code."""
        declared: list[dict[str, Json]] = [
            {
                "name": key,
                "type": trigger.type,
                "tenant": trigger.tenant or self._own_tenant(key),
                "settings": trigger.to_json(key, definition.parameters),
            }
            for key, definition in self._own_definitions.items()
            if (trigger := definition.settings.trigger) is not None
        ]
        return calls.declare_triggers(declared, list(self._own_definitions))

    def _own_tenant(self, key: str) -> str:
        tenant = self._location.default_tenant()
        if tenant is None:
            raise ConfigError(
                f"The trigger of {key} requires a tenant: set @jf.job(tenant=…), * for every"
                " tenant, or set the app's tenant",
                field="tenant",
            )
        return str(tenant)

    def register(self) -> None:
        """Register all definitions in the database. Workers do this when they start."""
        for call in (*self.registrations(), self.build_trigger_declaration()):
            self.client.run(call)

    async def aregister(self) -> None:
        """Like `register`, for async code."""
        for call in (*self.registrations(), self.build_trigger_declaration()):
            await self.client.arun(call)

    def close(self) -> None:
        """Close the connections of sync code. They reopen on next use."""
        self.client.pools.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop, and those of sync code."""
        await self.client.pools.aclose()

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Register the definitions when a web app starts, and close the connections when it stops.

        Usage: `FastAPI(lifespan=jf.lifespan)`.
        """
        try:
            await self.aregister()
        except Denied:
            # The login may enqueue only; workers register the definitions.
            _log.info("This login is not allowed to register definitions; workers register them")
        try:
            yield
        finally:
            await self.aclose()

    @contextmanager
    def connected_to(
        self, database_url: str, artifacts: "Callable[[], Artifacts] | None" = None
    ) -> Iterator[None]:
        """Use another database, and another artifact store if given, within the block; for tests.

        The previous connections are closed first, and the block's connections at its end.
        """
        pools = Pools(lambda: DatabaseAddress(database_url), size=self._pool_size)
        previous = self.client.switch_database(pools, None, artifacts)
        previous[0].close_all()
        try:
            yield
        finally:
            self.client.switch_database(*previous)
            pools.close_all()

    def _find_tenant(self, tenant: TenantRef | None) -> UUID:
        return complete(self.client.find_tenant(self.client.blocking, tenant))

    async def _afind_tenant(self, tenant: TenantRef | None) -> UUID:
        return await self.client.find_tenant(self.client.awaiting, tenant)

    def _build_handle(self, tenant_id: UUID, job_id: UUID) -> Handle[Json]:
        return Handle(self.client, ANYTHING, tenant_id, job_id, EnqueueStatus.EXISTING)

    def _add_function(
        self, function: Callable[..., Any], settings: DefinitionSettings
    ) -> CallableDefinition[..., Any, ..., Any]:
        definition: CallableDefinition[..., Any, ..., Any]
        definition = CallableDefinition(function, settings, self.client, self._hooks)
        update_wrapper(cast("Callable[..., Any]", definition), function)
        return self._add_definition(definition)

    def _add_definition(self, definition: D) -> D:
        key = definition.settings.key
        if key in self._own_definitions:
            raise Conflict(
                f"Definition '{key}' already exists; use another key=, or, if it is"
                " the same job with other parameters, a version= and an upgrade",
                field="key",
            )
        self._own_definitions[key] = definition
        self._refresh()
        return definition

    def _add_hook(self, hooks: list[Hook], hook: H) -> H:
        hooks.append(hook)
        self._refresh()
        return hook

    def _add_middleware(self, middleware: Middleware) -> None:
        for definition in self._own_definitions.values():
            definition.is_wrapped_by(middleware)  # raises Invalid before anything has changed
        self._hooks.middleware.append(middleware)
        self._refresh()

    def _refresh(self) -> None:
        """Rebuild the map of definitions after a definition or a hook was added."""
        definitions = dict(self._own_definitions)
        for definition in self._own_definitions.values():
            definition.update_hooks()
            if definition.settings.hooks:
                from jobforge.sdk.hook_job import HooksDefinition  # noqa: PLC0415 - it imports pydantic

                hooks = HooksDefinition(definition, self.client, self._hooks)
                definitions[hooks.settings.key] = hooks
        self._all_definitions = MappingProxyType(definitions)
