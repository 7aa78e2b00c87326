"""A decorated function as a definition: workers run it, applications enqueue jobs of it.

Owns the function, its settings, its hooks and the upgrades from older payload versions. enqueue.py
sends its jobs; payloads/signature.py converts its arguments to and from JSON.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast
from uuid import UUID, uuid4

from jobforge.errors import Invalid, InvalidPayload, Json
from jobforge.payloads.signature import (
    Arguments,
    Parameters,
    Shape,
    read_hints,
    read_parameters,
    read_result,
)
from jobforge.redact import job_scope
from jobforge.sdk.definition_settings import DefinitionSettings
from jobforge.sdk.engine_client import EngineClient
from jobforge.sdk.enqueue import Enqueuer
from jobforge.sdk.enqueue_options import Options
from jobforge.sdk.hooks import Hook, Hooks, run_start_hooks
from jobforge.sdk.middleware import HandlerKind, Middleware, call_through
from jobforge.types.jobs import ClaimedJob, encode_timestamp
from jobforge.types.jsonb import decode, encode

if TYPE_CHECKING:
    from jobforge.sdk.context import Context

P = ParamSpec("P")
R = TypeVar("R")
Called = ParamSpec("Called")
Returned = TypeVar("Returned")
H = TypeVar("H", bound=Callable[..., Any])

Upgrade = Callable[[dict[str, Json]], dict[str, Json]]
U = TypeVar("U", bound=Upgrade)


class Definition(Enqueuer[P, R]):
    """A job definition, which `@jf.job` creates. `P` are its parameters, `R` is its result."""

    has_artifacts_in_payload = False  # payloads contain payloads and results of other jobs
    has_handler = True  # middleware wraps the handler; a command has none
    can_create_artifacts = False  # a result may name an artifact in its member `artifact`
    # Takes a payload; returns the values to redact in the job's output.
    build_redaction_scope = staticmethod(job_scope)

    def __init__(
        self,
        function: Callable[..., Any],
        settings: DefinitionSettings,
        client: EngineClient,
        app_hooks: Hooks,
    ) -> None:
        self.function = function
        self.settings = settings
        self.client = client
        self.is_async = inspect.iscoroutinefunction(function)
        self.hooks = Hooks(app_hooks.on_change)
        self._app_hooks = app_hooks
        self._takes_context = _takes_context(function)
        self._upgrades: dict[int, Upgrade] = {}
        super().__init__(self, Options())
        self._check()
        self.update_hooks()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.settings.name}>"

    @cached_property
    def parameters(self) -> Parameters:
        return read_parameters(self.function, skip=int(self._takes_context))

    @cached_property
    def result(self) -> Shape:
        return read_result(self.function)

    @property
    def served_versions(self) -> tuple[str, ...]:
        """`key@version` of every version whose jobs it can run, its own version first."""
        key, own = self.settings.key, self.settings.version
        oldest = min(self._upgrades, default=own)
        for version in range(oldest, own):
            if version not in self._upgrades:
                raise Invalid(
                    f"{key} upgrades from version {oldest}, but not from {version}",
                    field="from_version",
                )
        return tuple(f"{key}@{version}" for version in range(own, oldest - 1, -1))

    def registration(self) -> dict[str, Json]:
        """Return the settings as put_definition takes them."""
        try:
            schema = self.parameters.schema()
        except Invalid as error:
            raise Invalid(f"{self.settings.key}: {error.message}") from error
        return self.settings.registration(schema)

    def parse_arguments(self, version: int, payload: dict[str, Json]) -> Arguments:
        """Return the handler's arguments for a payload of this version.

        Raises InvalidPayload if the payload does not match the parameters.
        """
        if version != self.settings.version:
            payload = self._upgrade_payload(version, payload)
        return self.parameters.read_arguments(payload)

    def parse_arguments_json(self, version: int, payload_json: str) -> Arguments:
        """Like `parse_arguments`, for a payload as JSON text."""
        if version != self.settings.version:
            return self.parse_arguments(version, decode(payload_json))
        return self.parameters.read_json_arguments(payload_json)

    def fake_claimed_job(self, payload: dict[str, Json], tenant_id: UUID) -> ClaimedJob:
        """Return a claimed job that no row backs, to run the function outside a worker."""
        settings, now = self.settings, datetime.now(UTC)
        return ClaimedJob(
            tenant_id=tenant_id,
            job_id=uuid4(),
            lease=1,
            definition=settings.key,
            version=settings.version,
            queue=settings.queue,
            attempt=1,
            max_attempts=settings.max_attempts,
            timeout_s=settings.timeout_s,
            started=encode_timestamp(now),
            source="manual",
            correlation_id=None,
            traceparent=None,
            idempotency_key=None,
            tags=None,
            payload_json=encode(payload, "payload"),
        )

    def invoke(self, ctx: "Context", arguments: Mapping[str, Any]) -> R | Awaitable[R]:
        """Call the function through the app's middleware, with the context if it takes one."""
        if self._middleware:
            leading = (ctx,) if self._takes_context else ()
            call = partial(self.function, *leading, **arguments)
            return cast("R | Awaitable[R]", call_through(self._middleware, ctx, call))
        if self._takes_context:
            returned: R | Awaitable[R] = self.function(ctx, **arguments)
        else:
            returned = self.function(**arguments)
        return returned

    def dump(self, result: Any) -> Json:  # noqa: ANN401 - the function's result
        """Return the result as JSON; raise Invalid when JSON cannot represent it."""
        if result is None or result is True or result is False or type(result) is str:
            return result
        try:
            return self.result.write(result)
        except Invalid as error:
            raise Invalid(f"The result {error.message}", field="result") from error

    def upgrade(self, *, from_version: int) -> Callable[[U], U]:
        """Register a function that converts a payload of `from_version` to the next version."""
        if not 1 <= from_version < self.settings.version:
            raise Invalid(
                f"{self.settings.name} cannot upgrade from version {from_version}",
                field="from_version",
            )
        if from_version in self._upgrades:
            raise Invalid(
                f"{self.settings.key} already has an upgrade from version {from_version}",
                field="from_version",
            )

        def register(upgrade: U) -> U:
            self._upgrades[from_version] = upgrade
            return upgrade

        return register

    @property
    def start_hooks(self) -> list[Hook]:
        """Hooks to call before each attempt: the definition's own, then the app's."""
        return [*self.hooks.start, *self._app_hooks.start]

    async def run_start_hooks(self, ctx: "Context") -> None:
        """Run the start hooks. A hook's failure is logged and does not fail the attempt."""
        await run_start_hooks(self.start_hooks, ctx)

    def on_start(self, hook: H) -> H:
        """Register `hook(ctx)`, which runs before the function in every attempt of the job."""
        return self._add_hook(self.hooks.start, hook)

    def on_success(self, hook: H) -> H:
        """Register `hook(ctx, result)`, which runs after the job has succeeded."""
        return self._add_hook(self.hooks.success, hook)

    def on_fail(self, hook: H) -> H:
        """Register `hook(ctx, error: dict)`, which runs after the job has become dead."""
        return self._add_hook(self.hooks.fail, hook)

    def on_end(self, hook: H) -> H:
        """Register `hook(ctx, state)`, which runs after the job has finished in any state."""
        return self._add_hook(self.hooks.end, hook)

    def is_wrapped_by(self, middleware: Middleware) -> bool:
        """Whether the middleware wraps the function. Raises Invalid if it cannot."""
        kind: HandlerKind = "async" if self.is_async else "sync"
        return self.has_handler and middleware.wraps(self.settings.key, kind)

    def update_hooks(self) -> None:
        """Decide once, not per attempt, what to call besides the function."""
        self._middleware = tuple(
            each.function for each in self._app_hooks.middleware if self.is_wrapped_by(each)
        )
        # Whether the function, a middleware or a start hook takes the context.
        self.needs_context = bool(self._takes_context or self._middleware or self.start_hooks)
        # Whether any hook needs a follow-up job.
        has_hooks = bool(self.hooks.follow_up_hooks or self._app_hooks.follow_up_hooks)
        if has_hooks != self.settings.hooks:
            self.settings = replace(self.settings, hooks=has_hooks)

    def _add_hook(self, hooks: list[Hook], hook: H) -> H:
        hooks.append(hook)
        self.hooks.on_change()
        return hook

    def _upgrade_payload(self, version: int, payload: dict[str, Json]) -> dict[str, Json]:
        for step in range(version, self.settings.version):
            upgrade = self._upgrades.get(step)
            if upgrade is None:
                raise InvalidPayload(f"{self.settings.key} has no upgrade from version {step}")
            try:
                payload = upgrade(payload)
            except Exception as error:
                raise InvalidPayload(
                    f"The upgrade from version {step} failed: {type(error).__name__}: {error}"
                ) from error
        if version > self.settings.version:
            raise InvalidPayload(f"{self.settings.name} does not support version {version}")
        return payload

    def _check(self) -> None:
        function, key = self.function, self.settings.key
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise Invalid(f"{key} is a generator; a handler must return its result")
        if self.settings.isolation == "inline" and not self.is_async:
            raise Invalid(
                f"{key} cannot run inline: it is not async and would block the worker's loop;"
                ' use "async def", or isolation="process"',
                field="isolation",
            )
        try:
            _ = self.parameters, self.result
        except NameError:
            return  # a forward reference, which is defined by the time of first use


class CallableDefinition(Definition[P, R], Generic[Called, Returned, P, R]):
    """A definition that can also be called like its function, context included."""

    def __call__(self, *args: Called.args, **kwargs: Called.kwargs) -> Returned:
        """Call the function in this process, without enqueuing a job."""
        return cast("Returned", self.function(*args, **kwargs))


def _takes_context(function: Callable[..., Any]) -> bool:
    """Whether the first parameter is the context: named `ctx`, or annotated as Context."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None:
        return False
    try:
        kind = read_hints(function, [first.name]).get(first.name)
    except NameError:  # imported under TYPE_CHECKING only
        kind = first.annotation
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    return first.name == "ctx" or name.rpartition(".")[2] == "Context"
