"""A decorated function: its definition, calls, payload upgrades and hooks."""

import asyncio
import logging
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

import pytest
from pydantic import BaseModel

import jobforge
from jobforge import Context, JobForge, Retry
from jobforge.errors import Conflict, Denied, Invalid, InvalidPayload, Json
from jobforge.sdk.definition import Definition
from jobforge.sdk.worker_requests import EnqueueJobs, WorkerRequest
from jobforge.types.jobs import ClaimedJob, Enqueued, EnqueueStatus, JobRequest, encode_timestamp
from jobforge.types.jsonb import encode

if TYPE_CHECKING:
    from jobforge import Context as Later

T = TypeVar("T")

JOB_ID, ENDED_ID, TENANT = UUID(int=1), UUID(int=2), UUID(int=3)


class Channel:
    """Records the notes of a job."""

    tenant_id = TENANT

    def __init__(self) -> None:
        self.notes: list[tuple[str, dict[str, Json]]] = []

    def note(self, kind: str, data: dict[str, Json]) -> None:
        self.notes.append((kind, data))

    def secret(self, name: str) -> str:
        raise NotImplementedError(name)

    def request(self, request: WorkerRequest[T]) -> T:
        raise NotImplementedError(request)

    async def request_async(self, request: WorkerRequest[T]) -> T:
        raise NotImplementedError(request)


def make_context() -> Context:
    now = datetime.now(UTC)
    fields: dict[str, Any] = {
        **dict.fromkeys(ClaimedJob._fields),
        "tenant_id": TENANT,
        "job_id": JOB_ID,
        "lease": 1,
        "started": encode_timestamp(now),
        "attempt": 1,
        "payload_json": "{}",
    }
    return Context(ClaimedJob(**fields), Channel())


@pytest.fixture
def jf() -> JobForge:
    return JobForge("postgresql://nobody@127.0.0.1:1/none")


def test_a_definition_is_named_after_its_function(jf: JobForge) -> None:
    @jf.job
    def report(month: str) -> None:
        """Makes the report
        of a month.

        In detail."""

    @jf.job(key="reports.yearly", version=3, queue="slow", retry=Retry(max_attempts=2))
    def yearly() -> None: ...

    assert (report.settings.name, yearly.settings.name) == ("report@1", "reports.yearly@3")
    assert report.settings.description == "Makes the report of a month."
    assert repr(report) == "<CallableDefinition report@1>"
    assert (yearly.settings.queue, yearly.settings.max_attempts) == ("slow", 2)
    assert jf.definitions == {"report": report, "reports.yearly": yearly}


def test_two_definitions_of_one_key_are_refused(jf: JobForge) -> None:
    jf.job(key="report")(_nothing)
    with pytest.raises(Conflict, match="'report' already exists"):
        jf.job(key="report")(_nothing)


def _nothing() -> None: ...


async def _async_nothing() -> None: ...


def test_only_an_async_function_can_run_inline(jf: JobForge) -> None:
    with pytest.raises(Invalid, match="async def") as refusal:
        jf.job(isolation="inline")(_nothing)
    assert refusal.value.field == "isolation"
    assert jf.job(isolation="inline")(_async_nothing).is_async


def test_a_generator_or_a_class_is_not_a_valid_handler(jf: JobForge) -> None:
    def generator() -> Any:
        yield 1

    class Callable_:  # noqa: N801 - a class that looks like a function
        def __call__(self) -> None: ...

    with pytest.raises(Invalid, match="generator"):
        jf.job(generator)
    with pytest.raises(Invalid, match="must be a function"):
        jf.job(Callable_())


def test_a_plain_call_runs_the_function(jf: JobForge) -> None:
    @jf.job
    def add(left: int, right: int) -> int:
        return left + right

    @jf.job
    async def who(ctx: Context, name: str) -> str:
        return f"{name}{ctx.attempt}"

    assert add(1, right=2) == 3
    assert asyncio.run(who(make_context(), "ada")) == "ada1"


def test_the_context_parameter_is_not_part_of_the_payload(jf: JobForge) -> None:
    @jf.job
    def typed(job: jobforge.Context, x: int) -> int:
        return job.attempt + x

    @jf.job
    def later(ctx: "Later", x: int) -> int:
        return ctx.attempt + x

    @jf.job
    def unnamed(ctx, x: int):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - annotations are missing on purpose
        return ctx.attempt + x

    @jf.job
    def none(x: int) -> int:
        return 1 + x

    for definition in (typed, later, unnamed, none):
        arguments = definition.parse_arguments(1, {"x": 1})
        assert arguments == {"x": 1}
        assert definition.invoke(make_context(), arguments) == 2


def test_types_may_be_defined_after_the_function(jf: JobForge) -> None:
    early = jf.job(_early)
    assert early.parse_arguments(1, {"number": 5}) == {"order": _Order(number=5)}


def _early(order: "_Order") -> None: ...


class _Order(BaseModel):
    number: int


def test_a_payload_that_does_not_match_is_refused(jf: JobForge) -> None:
    definition = jf.job(_early)
    with pytest.raises(InvalidPayload) as refusal:
        definition.parse_arguments(1, {"number": "many"})
    assert refusal.value.field == "number"


def test_payloads_of_older_versions_are_upgraded_step_by_step(jf: JobForge) -> None:
    @jf.job(version=3)
    def send(to: str, name: str) -> None: ...

    @send.upgrade(from_version=2)
    def split(old: dict[str, Json]) -> dict[str, Json]:
        return {"to": old["to"], "name": old["full_name"].split()[0]}

    @send.upgrade(from_version=1)
    def rename(old: dict[str, Json]) -> dict[str, Json]:
        return {"to": old["address"], "full_name": old["full_name"]}

    assert send.served_versions == ("send@3", "send@2", "send@1")
    oldest = {"address": "ada@example.com", "full_name": "Ada Lovelace"}
    assert send.parse_arguments(1, oldest) == {"to": "ada@example.com", "name": "Ada"}
    assert send.parse_arguments(3, {"to": "x", "name": "y"}) == {"to": "x", "name": "y"}
    with pytest.raises(InvalidPayload, match="upgrade from version 2 failed: KeyError"):
        send.parse_arguments(2, {})
    with pytest.raises(InvalidPayload, match="does not support version 4"):
        send.parse_arguments(4, {})


def test_a_gap_between_versions_is_an_error(jf: JobForge) -> None:
    @jf.job(version=3)
    def send(to: str) -> None: ...

    send.upgrade(from_version=1)(lambda old: old)
    with pytest.raises(Invalid, match="not from 2"):
        _ = send.served_versions
    for version in (0, 1, 3):
        with pytest.raises(Invalid):
            send.upgrade(from_version=version)


def test_results_are_encoded_as_json(jf: JobForge) -> None:
    @jf.job
    def made() -> _Order: ...  # type: ignore[empty-body] # only its type counts

    assert made.dump(_Order(number=1)) == {"number": 1}
    assert made.dump("another type is written as it is") == "another type is written as it is"
    assert made.dump(None) is None
    with pytest.raises(Invalid) as refusal:
        made.dump(object())
    assert refusal.value.field == "result"


def ended(state: str, **more: Json) -> dict[str, Json]:
    return {
        "job_id": str(ENDED_ID),
        "definition": "count",
        "version": 1,
        "state": state,
        "attempt": 4,
        **more,
    }


def run_hooks_of(jf: JobForge, payload: dict[str, Json]) -> None:
    definition = jf.definitions["count:hooks"]
    running = definition.invoke(
        make_context(), definition.parse_arguments_json(1, encode(payload, "payload"))
    )
    asyncio.run(cast("Coroutine[Any, Any, None]", running))


def make_hooked(jf: JobForge) -> tuple[Definition[[], int], list[object]]:
    seen: list[object] = []

    @jf.job
    def count() -> int:
        return 1

    @count.on_success
    def succeeded(ctx: Context, result: int) -> None:
        seen.append(("success", ctx.job_id, ctx.attempt, result))

    @count.on_fail
    async def failed(ctx: Context, error: dict[str, Json]) -> None:
        seen.append(("fail", ctx.job_id, error))

    @jf.on_end
    def over(ctx: Context, state: str) -> None:
        seen.append(("end", ctx.definition, state))

    return count, seen


def test_hooks_are_called_for_the_outcome_of_the_job(jf: JobForge) -> None:
    _, seen = make_hooked(jf)
    run_hooks_of(jf, ended("succeeded", result=7))
    run_hooks_of(jf, ended("dead", error={"type": "KeyError"}))
    run_hooks_of(jf, ended("canceled", reason="gone", something_new=True))
    assert seen == [
        ("success", ENDED_ID, 4, 7),
        ("end", "count", "succeeded"),
        ("fail", ENDED_ID, {"type": "KeyError"}),
        ("end", "count", "dead"),
        ("end", "count", "canceled"),
    ]


def test_a_hook_that_fails_does_not_prevent_the_others_from_running(
    jf: JobForge, caplog: pytest.LogCaptureFixture
) -> None:
    count, seen = make_hooked(jf)

    @count.on_end
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR, "jobforge"), pytest.raises(ZeroDivisionError):
        run_hooks_of(jf, ended("succeeded", result=7))
    assert len(seen) == 2
    assert "broken" in caplog.text


def test_hooks_create_a_separate_definition(jf: JobForge) -> None:
    @jf.job(version=2, queue="slow")
    def count() -> int:
        return 1

    count.upgrade(from_version=1)(lambda old: old)
    assert (list(jf.definitions), count.settings.hooks) == (["count"], False)
    count.on_end(lambda ctx, state: None)  # noqa: ARG005 - a hook takes both
    assert (list(jf.definitions), count.settings.hooks) == (["count", "count:hooks"], True)
    hooks = jf.definitions["count:hooks"]
    assert hooks.served_versions == ("count:hooks@2", "count:hooks@1")
    assert (hooks.settings.queue, hooks.settings.hooks) == ("slow", False)
    assert (
        hooks.parse_arguments_json(1, encode(ended("dead"), "payload"))["ended"].job_id == ENDED_ID
    )


def test_a_hook_of_the_app_applies_to_definitions_before_and_after_it(jf: JobForge) -> None:
    jf.job(key="before")(_nothing)
    jf.on_success(lambda ctx, result: None)  # noqa: ARG005 - a hook takes both
    jf.job(key="after")(_nothing)
    assert sorted(jf.definitions) == ["after", "after:hooks", "before", "before:hooks"]


def test_start_hooks_run_in_order_and_cannot_fail_the_job(jf: JobForge) -> None:
    count, seen = make_hooked(jf)

    @jf.on_start
    async def starting(ctx: Context) -> None:
        seen.append(("app", ctx.job_id))

    @count.on_start
    def broken(ctx: Context) -> None:
        seen.append(("own", ctx.job_id))
        raise ZeroDivisionError

    asyncio.run(count.run_start_hooks(make_context()))
    assert seen == [("own", JOB_ID), ("app", JOB_ID)]
    assert len(count.start_hooks) == 2


class ProcessChannel:
    """The channel to the worker, as code in a job's process uses it."""

    tenant_id = TENANT

    def __init__(self) -> None:
        self.jobs: list[JobRequest] = []

    def request(self, request: EnqueueJobs) -> list[Enqueued]:
        self.jobs += request.jobs
        return [Enqueued(JOB_ID, EnqueueStatus.CREATED) for _ in request.jobs]


def test_inside_a_job_enqueue_uses_the_channel(
    jf: JobForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, _ = make_hooked(jf)
    monkeypatch.setattr("jobforge.sdk.call_context._process_channel", channel := ProcessChannel())
    handle = count.using(priority=3).enqueue()
    asyncio.run(count.using(tenant=TENANT).aenqueue())
    count.enqueue_many([count.args(), count.args()])
    assert [job.definition for job in channel.jobs] == ["count"] * 4
    assert (handle.id, handle.tenant_id, channel.jobs[0].priority) == (JOB_ID, TENANT, 3)
    with pytest.raises(Denied, match="own tenant"):
        count.using(tenant=UUID(int=9)).enqueue()
    with pytest.raises(Conflict, match="no database"):
        handle.wait()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"dedupe": "active"}, "key"),
        ({"on_conflict": "raise"}, "key"),
        ({"key": "k", "dedupe": "always"}, "dedupe"),
        ({"delay": -1}, "delay"),
        ({"at": datetime(2030, 1, 1)}, "at"),  # noqa: DTZ001 - the missing time zone is the error
        ({"expires_at": "tomorrow"}, "expires_at"),
        ({"tags": "one"}, "tags"),
    ],
)
def test_contradictory_options_are_refused_by_name(
    jf: JobForge, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        jf.job(_nothing).using(**options)
    assert refusal.value.field == field


def test_later_options_override_earlier_ones(jf: JobForge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobforge.sdk.call_context._process_channel", channel := ProcessChannel())
    first = jf.job(_nothing).using(priority=1, queue="slow", key="k")
    first.using(priority=2, dedupe="active").enqueue()
    (job,) = channel.jobs
    assert (job.priority, job.queue, job.key, job.key_mode) == (2, "slow", "k", "active")


def test_a_tenant_that_is_neither_uuid_nor_slug_is_refused(jf: JobForge) -> None:
    tenant: Any = 5
    with pytest.raises(Invalid) as refusal:
        jf.job(_nothing).using(tenant=tenant).enqueue()
    assert refusal.value.field == "tenant"


def test_a_type_without_a_schema_is_reported_with_its_definition(jf: JobForge) -> None:
    def call(what: type) -> str:
        return what.__name__

    with pytest.raises(Invalid, match="call: The types have no JSON Schema"):
        jf.job(call).registration()
