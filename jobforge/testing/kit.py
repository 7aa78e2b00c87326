"""The `Kit` of a test: connects the app to the test's database, runs its jobs, inspects them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar
from uuid import UUID, uuid4

from pydantic_core import to_jsonable_python

from jobforge import calls, db
from jobforge.artifacts import Artifacts, open_artifacts
from jobforge.config import load
from jobforge.connectors import connector_registrations
from jobforge.errors import ConfigError, Json, NotFound, TenantRequired
from jobforge.sdk.app import JobForge
from jobforge.sdk.command import filter_servable
from jobforge.sdk.definition import Definition
from jobforge.sdk.engine_client import complete
from jobforge.testing.assertions import ExpectedJobs, describe_mismatch
from jobforge.testing.attempt import AttemptRunner, HandlerState
from jobforge.testing.cluster import Postgres
from jobforge.testing.database import EnqueuedJob, KitDatabase, fresh_database
from jobforge.testing.drain import Drained, Drainer
from jobforge.testing.event_loop import HandlerLoop, run_outside_loops
from jobforge.testing.notes import Notes

P = ParamSpec("P")
R = TypeVar("R")


class Kit:
    """A JobForge instance for one test, created by the fixture `jf_test`.

    All methods are synchronous, even in async tests: async handlers run on the kit's own event
    loop while the test waits.
    """

    def __init__(self, database: KitDatabase, conn: db.Connection) -> None:
        self._database = database
        self._conn = conn
        self._apps: list[JobForge] = []
        self._exit_stack = ExitStack()
        self._state = HandlerState(self._get_artifacts)
        self._loop = HandlerLoop()
        self._runner = AttemptRunner(conn, self._loop, self._state)

    @property
    def notes(self) -> Notes:
        """The notes that handlers have written so far."""
        return self._state.notes

    @property
    def secrets(self) -> dict[str, str]:
        """Secrets for `ctx.secret`. Other names are looked up as a worker does."""
        return self._state.secrets

    @property
    def url(self) -> str:
        """The URL of the test's database, for the test's own connections."""
        return self._database.url

    @property
    def worker_url(self) -> str:
        """The URL for a worker or an operator, who may call every function."""
        return self._database.kit_url

    def use(self, app: JobForge) -> None:
        """Connect the app to the test's database until the test ends."""
        if app in self._apps:
            return
        self._exit_stack.enter_context(app.connected_to(self.url, self._get_artifacts))
        for call in (*app.registrations(), *connector_registrations()):
            db.run(self._conn, call)
        self._apps.append(app)

    def tenant(self, slug: str, **settings: Json) -> UUID:
        """Create a tenant and return its ID."""
        tenant_id = uuid4()
        db.run(self._conn, calls.put_tenant(tenant_id, {"slug": slug, **settings}))
        return tenant_id

    def tenant_id(self, slug: str) -> UUID:
        """Return the ID of a tenant. Raises NotFound."""
        return db.run(self._conn, calls.find_tenant(slug))

    def enqueued(self) -> list[EnqueuedJob]:
        """Return all jobs created so far in any state, oldest first."""
        return self._database.jobs()

    def assert_enqueued(  # noqa: PLR0913 - one parameter per attribute of a job
        self,
        definition: Definition[..., Any] | str,
        /,
        *,
        tenant: str | UUID | None = None,
        queue: str | None = None,
        key: str | None = None,
        count: int | None = None,
        payload: Mapping[str, Json] | None = None,
        **members: Json,
    ) -> list[EnqueuedJob]:
        """Assert that `count` (default: at least one) matching jobs were enqueued. Returns them.

        Keyword arguments match members of the payload; other members may have any value. Use
        `payload` for members whose name is that of another parameter.
        """
        members = _to_payload_members(definition, {**(payload or {}), **members})
        wanted = ExpectedJobs(_definition_key(definition), tenant, queue, key, members)
        jobs = self.enqueued()
        found = [job for job in jobs if wanted.matches(job)]
        if (count is None and not found) or (count is not None and len(found) != count):
            expected = "at least one job" if count is None else f"{count} jobs"
            raise AssertionError(describe_mismatch(wanted, expected, len(found), jobs))
        return found

    def refute_enqueued(
        self,
        definition: Definition[..., Any] | str,
        /,
        *,
        tenant: str | UUID | None = None,
        queue: str | None = None,
        key: str | None = None,
        payload: Mapping[str, Json] | None = None,
        **members: Json,
    ) -> None:
        """Assert that no matching job was enqueued."""
        members = _to_payload_members(definition, {**(payload or {}), **members})
        wanted = ExpectedJobs(_definition_key(definition), tenant, queue, key, members)
        jobs = self.enqueued()
        found = sum(map(wanted.matches, jobs))
        if found:
            raise AssertionError(describe_mismatch(wanted, "no job", found, jobs))

    def drain(
        self,
        *,
        limit: int | None = None,
        with_scheduled: bool = True,
        raise_errors: bool = False,
    ) -> Drained:
        """Run jobs until none is left, including retries and the jobs that they enqueue.

        Due schedules enqueue their jobs first. Events enqueue the jobs of their triggers, and wake
        jobs that wait for them, whenever no other job can run. Scheduled jobs run too, unless
        `with_scheduled` is false: the clock moves forward to them. `limit` is the maximum number of
        attempts. With `raise_errors`, the first error of a handler is raised after its attempt is
        recorded.
        """
        self._declare_triggers()
        definitions = self._definitions()
        drain = Drainer(self._database, self._conn, self._runner, definitions, self._get_artifacts)
        return run_outside_loops(
            lambda: drain.run(limit=limit, with_scheduled=with_scheduled, raise_errors=raise_errors)
        )

    def run(self, definition: Definition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the handler without the queue. Returns its result or raises its error.

        The arguments are converted to JSON and back, as in a payload.
        """
        tenant_id = self._tenant_of(definition)
        result: R = run_outside_loops(
            lambda: self._runner.call_handler(definition, tenant_id, args, kwargs)
        )
        return result

    def fail_next(
        self,
        definition: Definition[..., Any] | str,
        error: BaseException | None = None,
        *,
        times: int = 1,
    ) -> None:
        """Make the definition's next attempts raise the error instead of running the handler."""
        planned = error or RuntimeError("The test made this attempt fail")
        self._state.failures.plan(_definition_key(definition), planned, times)

    def travel(self, by: timedelta | float = 0, /, **parts: float) -> None:
        """Move the database clock forward, in seconds: `travel(30)`. Or: `travel(hours=2)`."""
        given = by if isinstance(by, timedelta) else timedelta(seconds=by)
        ahead = given + timedelta(**parts)
        if ahead < timedelta():
            raise ValueError("Time cannot move backwards")
        self._declare_triggers()
        self._database.travel(ahead)

    def now(self) -> datetime:
        """Return the time of the test's database clock."""
        return self._database.now()

    def close(self) -> None:
        """Disconnect the apps from the test's database and close the event loop."""
        run_outside_loops(self._close)

    def _close(self) -> None:
        for app in self._apps:
            self._loop.run(app.aclose())
        self._exit_stack.close()
        self._loop.close()

    def _get_artifacts(self) -> Artifacts:
        """Return the configured artifact store, or a temporary folder for this test."""
        return self._store

    @cached_property
    def _store(self) -> Artifacts:
        config = load()
        if config.artifacts is None:
            folder = self._exit_stack.enter_context(
                TemporaryDirectory(prefix="jobforge-artifacts-")
            )
            config = replace(config, artifacts=folder)
        return open_artifacts(config)

    def _tenant_of(self, definition: Definition[..., Any]) -> UUID:
        try:
            client = definition.client
            return complete(client.find_tenant(client.blocking, None))
        except TenantRequired:
            return uuid4()  # any tenant will do

    def _declare_triggers(self) -> None:
        """Declare the apps' triggers; skip an app whose tenant is not set or does not exist."""
        for app in self._apps:
            if any(each.settings.trigger for each in app.definitions.values()):
                with suppress(ConfigError, NotFound):
                    db.run(self._conn, app.build_trigger_declaration())

    def _definitions(self) -> dict[str, Definition[..., Any]]:
        if not self._apps:
            raise ConfigError(
                "The test uses no app",
                hint='Set jobforge_app = "app.py:jf" in the pytest settings, '
                "or call jf_test.use(jf)",
            )
        found = [each for app in self._apps for each in app.definitions.values()]
        return {each.settings.key: each for each in filter_servable(found, load().allowed_commands)}


@contextmanager
def open_kit(postgres: Postgres) -> Iterator[Kit]:
    """Yield a kit on a fresh database."""
    with (
        fresh_database(postgres) as database,
        db.connect(database.kit_url) as conn,
    ):
        kit = Kit(database, conn)
        try:
            yield kit
        finally:
            kit.close()


def _definition_key(definition: Definition[..., Any] | str) -> str:
    return definition if isinstance(definition, str) else definition.settings.key


def _to_payload_members(
    definition: Definition[..., Any] | str, given: dict[str, Json]
) -> dict[str, Json]:
    """Return the fields of the payload. The argument of a model parameter is the whole payload."""
    model = None if isinstance(definition, str) else definition.parameters.model
    if model is None or model not in given:
        return given
    whole = to_jsonable_python(given.pop(model))
    return {**whole, **given}
