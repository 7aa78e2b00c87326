"""One attempt in this process, as a worker would make it: hooks, arguments, handler, verdict.

Sync handlers run in the test's own thread, so that what the test has set up there is there for
them. Limits and timeouts are the worker's business, and do not hold here.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, TypeVar
from uuid import UUID

from jobforge import calls, db
from jobforge.artifacts import Artifacts
from jobforge.config import load
from jobforge.errors import Invalid, Json, NotCommitted
from jobforge.redact import register_secret
from jobforge.sdk.command import Command
from jobforge.sdk.context import Context
from jobforge.sdk.definition import Definition
from jobforge.sdk.hooks import Hook
from jobforge.sdk.job_scope import flowing, set_door
from jobforge.sdk.retry import Cancelled, Waiting
from jobforge.sdk.settings import Settings
from jobforge.sdk.tenancy import Ambient
from jobforge.sdk.verdict import Verdict, raised, returned, unusable
from jobforge.security.secrets import Secrets
from jobforge.testing.command import run_program
from jobforge.testing.event_loop import Loop
from jobforge.testing.notes import Notes
from jobforge.types.jobs import ClaimedJob, Enqueued, JobRequest, Note, Step
from jobforge.worker.payload_downloads import with_parents
from jobforge.worker.step_writer import check_saved, children
from jobforge.worker.workflow_requests import question

T = TypeVar("T")

_log = logging.getLogger("jobforge")


class Failures:
    """The attempts that a test wants to fail, by the key of their definition."""

    def __init__(self) -> None:
        self._planned: defaultdict[str, deque[BaseException]] = defaultdict(deque)

    def plan(self, key: str, error: BaseException, times: int) -> None:
        self._planned[key].extend([error] * times)

    def strike(self, key: str) -> None:
        """Raises what was planned for this attempt, if anything was."""
        if self._planned[key]:
            raise self._planned[key].popleft()


@dataclass(frozen=True, slots=True)
class Played:
    """An attempt that has ended, and what was said in it."""

    verdict: Verdict
    exception: BaseException | None
    said: Sequence[Note]


class Desk:
    """The worker's side of one attempt: a Channel for its context, a Door for its enqueues."""

    def __init__(
        self,
        job: ClaimedJob,
        conn: db.Connection,
        props: "Props",
        worker_id: UUID | None = None,
    ) -> None:
        self.said: list[Note] = []
        self.tenant_id = job.tenant_id
        self._job = job
        self._worker_id = worker_id
        self._conn = conn
        self._props = props

    def note(self, kind: str, data: dict[str, Json]) -> None:
        self._props.notes.add(kind, data)
        self.said.append(Note(*self._job.token, kind, data))

    def secret(self, name: str) -> str:
        given = self._props.secrets.get(name)
        value = Secrets(load().secrets_dir).lookup(name) if given is None else given
        register_secret(value)
        return value

    def enqueue(self, jobs: Sequence[JobRequest]) -> list[Enqueued]:
        """As a worker does it: for the tenant of the job, whose correlation flows on."""
        call = calls.enqueue_jobs(flowing(self._job, jobs))
        return db.run(self._conn, call.for_tenant(self.tenant_id))

    def ask(self, kind: str, data: Json) -> Json:
        if self._worker_id is None:
            return _answer_without_engine(kind)
        match kind:
            case "save_step":
                step = Step(*self._job.token, **data)
                (status,) = db.run(self._conn, calls.save_steps(self._worker_id, [step]))
                return check_saved(step, status)
            case "enqueue_children":
                made = db.run(self._conn, children(self._worker_id, self._job, **data))
                return [[str(each.job_id), each.status] for each in made]
            case "parents":
                lineage = db.run(self._conn, question(self._worker_id, self._job, kind, data))
                return with_parents(self._props.artifacts(), self.tenant_id, lineage)
            case _:
                return db.run(self._conn, question(self._worker_id, self._job, kind, data))

    async def aask(self, kind: str, data: Json) -> Json:
        return self.ask(kind, data)


@dataclass(frozen=True, slots=True)
class Props:
    """What a test lays out for handlers, and what they leave."""

    artifacts: Callable[[], Artifacts]
    notes: Notes = field(default_factory=Notes)
    secrets: dict[str, str] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)


class Stage:
    """Where handlers are called in a test."""

    def __init__(self, conn: db.Connection, loop: Loop, props: Props) -> None:
        self._conn = conn
        self._loop = loop
        self._props = props

    def play(self, definition: Definition[..., Any], job: ClaimedJob, worker_id: UUID) -> Played:
        """The attempt of a job that the worker holds."""
        desk = Desk(job, self._conn, self._props, worker_id)
        ctx = Context(job, desk, worker_id)
        if isinstance(definition, Command):
            return self._play_program(definition, ctx, desk)
        try:
            result = self._call(definition, ctx, desk)
            if ctx.was_completed:
                raise NotCommitted  # noqa: TRY301 - a failure like any other
        except (Exception, Cancelled, Waiting, BaseExceptionGroup) as error:  # noqa: BLE001 - the verdict tells which it was
            return Played(raised(error, definition.settings), error, desk.said)
        try:
            return Played(returned(definition.dump(result)), None, desk.said)
        except Invalid as error:
            return Played(unusable(error), error, desk.said)

    def rehearse(
        self,
        definition: Definition[..., Any],
        tenant_id: UUID,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401 - what the handler returns
        """A call of the handler for a job that is nowhere but here."""
        if isinstance(definition, Command):
            raise Invalid("a command has no handler to call: enqueue it, and drain")
        payload = definition.parameters.payload(args, kwargs)
        job = definition.imagined(payload, tenant_id)
        desk = Desk(job, self._conn, self._props)
        try:
            result = self._call(definition, Context(job, desk), desk)
        except Waiting as waiting:
            raise Invalid("a handler that waits has to be enqueued and drained") from waiting
        definition.dump(result)
        return result

    def _play_program(self, command: Command, ctx: Context, desk: Desk) -> Played:
        try:
            with self._begun(command, ctx, desk):
                return Played(run_program(command, ctx), None, desk.said)
        except Exception as error:  # noqa: BLE001 - as above
            return Played(raised(error, command.settings), error, desk.said)

    def _call(self, definition: Definition[..., Any], ctx: Context, desk: Desk) -> Any:  # noqa: ANN401 - as above
        arguments = definition.arguments_of(ctx.version, ctx.payload_json)
        with self._begun(definition, ctx, desk):
            return self._awaited(definition.invoke(ctx, arguments))

    @contextmanager
    def _begun(self, definition: Definition[..., Any], ctx: Context, desk: Desk) -> Iterator[None]:
        with _inside_job(definition.settings, desk):
            for hook in definition.start_hooks:
                self._start(hook, ctx)
            self._props.failures.strike(definition.settings.key)
            yield

    def _start(self, hook: Hook, ctx: Context) -> None:
        try:
            self._awaited(hook(ctx))
        except Exception:  # noqa: BLE001 - as in production it does not fail the job
            _log.exception("the hook %s failed", getattr(hook, "__qualname__", hook))

    def _awaited(self, answer: Any) -> Any:  # noqa: ANN401 - as above
        return self._loop.run(_wait_for(answer)) if isawaitable(answer) else answer


def _answer_without_engine(kind: str) -> None:
    if kind != "save_step":  # to store it would mean nothing: there is no job to run again
        raise Invalid(f"{kind} needs a job: enqueue it, and drain")


@contextmanager
def _inside_job(settings: Settings, desk: Desk) -> Iterator[None]:
    """Enqueuing means what it means there: a process of its own has no other way than the door."""
    with Ambient(desk.tenant_id):
        set_door(desk if settings.isolation == "process" else None)
        try:
            yield
        finally:
            set_door(None)


async def _wait_for(answer: Awaitable[T]) -> T:
    return await answer
