"""The Python SDK fulfills the contract: every case of contract/cases, on a real Postgres."""

import base64
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID

import anyio
import pytest
from cluster import Connection, Database, connect_to, fresh_database
from integration.worker_harness import eventually
from pydantic import StrictStr

from contract.cases import CONTRACT, Case, CaseNames, cases, in_order, read
from jobforge import (
    Cancel,
    Context,
    Dead,
    JobForge,
    Retry,
    Snooze,
    db,
    errors,
    redact,
    verify_webhook,
)
from jobforge.calls.call import query
from jobforge.db.sqlstates import error_from_sqlstate
from jobforge.embedded import PostgresServer
from jobforge.errors import ChildFailed, JobForgeError, Json
from jobforge.redact import scope as scopes
from jobforge.scheduler import template
from jobforge.sdk.definition import Definition
from jobforge.security import webhook_signature
from jobforge.worker import Worker

pytestmark = pytest.mark.anyio


Definitions = dict[str, Definition[..., Any]]


@dataclass(frozen=True, slots=True)
class HandlerScript:
    """What a handler does, as the payload of a case says."""

    do: str
    value: Json
    message: str
    after: float


async def run_script(ctx: Context, script: HandlerScript, definitions: Definitions) -> Json:
    match script.do:
        case "return":
            return script.value
        case "dead":
            raise Dead(script.message)
        case "cancel":
            raise Cancel(script.message)
        case "retry":
            raise Retry(script.message, after=script.after)
        case "snooze":
            raise Snooze(script.after)
        case "fail":
            raise RuntimeError(script.message)
        case _:
            return await run_durable_script(ctx, script, definitions[ctx.definition])


async def run_durable_script(
    ctx: Context, script: HandlerScript, own: Definition[..., Any]
) -> Json:
    match script.do:
        case "step":
            stored = await ctx.step("count", _step_returning(ctx.attempt))
            if ctx.attempt == 1:
                raise RuntimeError(script.message)
            return {"stored": stored, "attempt": ctx.attempt}
        case "hoard":
            return await ctx.step("hoard", _step_returning("x" * 1024**2))
        case "sleep":
            first = await ctx.step("turn", _step_returning(0))
            await ctx.sleep(script.after)
            return [first, await ctx.step("turn", _step_returning(1))]
        case "wait" | "wait_since":
            since = None if script.do == "wait" else datetime.now(UTC) - timedelta(hours=1)
            event = await ctx.wait_for_event(
                script.message, script.value, timeout=script.after, since=since
            )
            return event.data
        case _:
            children = await ctx.aenqueue_many(own, [own.args(**each) for each in script.value])
            if script.do == "gather":
                return await ctx.gather(children)
            found = await ctx.gather(children, return_failures=True)
            return [
                each.detail["state"] if isinstance(each, ChildFailed) else each for each in found
            ]


def _step_returning(answer: Json) -> Callable[[], Coroutine[Any, Any, Json]]:
    async def answered() -> Json:
        return answer

    return answered


@pytest.fixture(scope="module")
def contract_database(server: PostgresServer) -> Iterator[Database]:
    with fresh_database(server) as fresh:
        yield fresh


class CaseRunner:
    """Runs the steps of a case with this SDK."""

    def __init__(self, database: Database, conn: Connection) -> None:
        self._url = database.url
        self._conn = conn
        self._names = CaseNames()
        self._definitions: Definitions = {}
        self._jf = JobForge(database.url)

    async def run_step(self, step: dict[str, Json]) -> None:
        kind = next(
            each for each in ("call", "select", "define", "enqueue", "work") if each in step
        )
        make = getattr(self, f"_{kind}")
        try:
            rows = await make(step)
        except JobForgeError as error:
            if "code" not in step:
                raise
            self._match_error(error, step)
            return
        assert "code" not in step, f"it was not refused: {rows}"
        if "rows" in step:
            actual, expected = rows, step["rows"]
            if step.get("unordered"):
                actual, expected = in_order(actual), in_order(self._names.fill(expected))
            self._names.match(actual, expected, str(step))

    async def close(self) -> None:
        self._jf.close()

    async def _call(self, step: dict[str, Json]) -> Json:
        function, given = step["call"], self._names.fill(step["args"])
        types = _types(self._conn, function)
        arguments = ", ".join(f"{name} => {_sql_placeholder(types[name])}" for name in given)
        return self._rows(
            f"select * from jobforge.{function}({arguments}) as value",
            [_sql_value(value) for value in given.values()],
        )

    async def _select(self, step: dict[str, Json]) -> Json:
        return self._rows(
            step["select"].replace("$1", "%s::text::uuid"), self._names.fill(step["args"])
        )

    async def _define(self, step: dict[str, Json]) -> None:
        given = self._names.fill(step["define"])
        retry = Retry(max_attempts=given.get("max_attempts", 5), base=given.get("base", 1))
        declare = self._jf.job(
            key=given["key"], queue=given["queue"], isolation="inline", retry=retry
        )
        self._definitions[given["key"]] = cast("Definition[..., Any]", declare(self._handler()))
        self._jf.register()

    def _handler(self) -> Callable[..., Coroutine[Any, Any, Json]]:
        definitions = self._definitions

        async def handler(
            ctx: Context,
            do: StrictStr,
            value: Json = None,
            message: str = "failed",
            after: float = 0,
        ) -> Json:
            return await run_script(ctx, HandlerScript(do, value, message, after), definitions)

        return handler

    async def _enqueue(self, step: dict[str, Json]) -> None:
        given = self._names.fill(step["enqueue"])
        definition = self._definitions[given["key"]]
        handle = definition.using(**given["using"]).enqueue(**given["payload"])
        if "save" in step:
            self._names.saved[step["save"]] = str(handle.id)
        if "status" in step:
            assert handle.status == step["status"]

    async def _work(self, step: dict[str, Json]) -> None:
        queues = {each.settings.queue: 10 for each in self._definitions.values()}
        async with db.Database(self._url) as database, anyio.create_task_group() as group:
            worker = Worker(self._jf, database, queues=queues, poll_s=0.1)
            group.start_soon(worker.run)
            for name, expected in step["work"].items():
                await eventually(partial(self._has_reached, name, expected["state"]))
            worker.stop()
        for name, expected in step["work"].items():
            self._names.match(self._job(name), expected, name)

    def _has_reached(self, name: str, state: str) -> bool:
        """Return whether the job has reached this state; a waiting job has run only if it once had
        a lease.
        """
        job = self._job(name)
        return bool(job["state"] == state and job["lease"] != 0)

    def _job(self, name: str) -> dict[str, Json]:
        rows = self._rows(
            "select job from jobforge.get_job(%s::uuid, %s::uuid)",
            [self._names.saved[name], self._names.braces["{tenant}"]],
        )
        return cast("dict[str, Json]", rows[0]["job"])

    def _rows(self, sql: str, values: list[Json]) -> list[Json]:
        text = f"select coalesce(json_agg(row_to_json(x)), '[]')::text from ({sql}) as x"
        call = query(text, values, lambda rows: json.loads(rows[0][0]))
        return cast("list[Json]", db.run(self._conn, call))

    def _match_error(self, error: JobForgeError, step: dict[str, Json]) -> None:
        assert error.code == step["code"], error
        assert error.field == step.get("field", error.field)
        self._names.match(error.detail, step.get("detail", {}), "detail")


@pytest.mark.parametrize("case", list(cases()), ids=str)
async def test_the_case_holds(case: Case, contract_database: Database) -> None:
    with connect_to(contract_database.url) as conn:
        runner = CaseRunner(contract_database, conn)
        for step in case.steps:
            await runner.run_step(step)
        await runner.close()


def test_secret_fields_are_hidden_as_the_contract_says() -> None:
    contract = read("redaction")
    for value in contract["registered"]:
        redact.register_secret(value)
    for given, redacted in contract["texts"]:
        assert redact.redact_text(given) == redacted
    for given, redacted in contract["values"]:
        assert redact.redact(given) == redacted
    for name, is_secret in contract["names"].items():
        assert redact.is_secret_name(name) is is_secret, name


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("case", read("redaction")["scopes"], ids=lambda case: case["name"])
def test_secrets_are_hidden_where_the_contract_says(case: dict[str, Json]) -> None:
    job, other = redact.job_scope(case.get("payload", "{}")), redact.job_scope("{}")
    for value in case.get("operator", []):
        assert redact.register_operator_secret(value)
    for value in case.get("app", []):
        assert redact.register_secret(value)
    for value in case.get("job", []):
        assert job.add(value)
        assert redact.register_job_secret(value)
    for name, scope in {"output": job, "other": other, "log": redact.log_scope()}.items():
        for given, redacted in case.get(name, []):
            assert redact.redact(given, scope) == redacted, name


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Remove what the test registers in this process."""
    yield
    for registry in (scopes.OPERATOR_SECRETS, scopes.JOB_SECRETS, scopes.APP_SECRETS):
        registry._values.clear()  # noqa: SLF001 - other tests start without them
        registry._index = None  # noqa: SLF001 - other tests start without them


def test_templates_render_as_the_contract_says() -> None:
    contract = read("templates")
    values = {"event": contract["event"]}
    for written, rendered in contract["rendered"]:
        assert template.render({"value": written}, values) == {"value": rendered}
    for written, field in contract["refused"]:
        with pytest.raises(errors.Invalid) as refused:
            template.render({"value": written}, values)
        assert refused.value.field == field


def test_webhooks_are_signed_as_the_contract_says() -> None:
    contract = read("webhooks")
    secrets = [base64.b64decode(each.removeprefix("whsec_")) for each in contract["secrets"]]
    signed = webhook_signature.sign_headers(
        UUID(contract["delivery_id"]),
        contract["body"].encode(),
        secrets,
        sent_at=contract["sent_at"],
    )
    assert signed == contract["headers"]


@pytest.mark.parametrize("reception", read("webhooks")["receptions"], ids=lambda row: row["name"])
def test_webhooks_are_verified_as_the_contract_says(reception: dict[str, Json]) -> None:
    contract = read("webhooks")
    headers = contract["headers"] | reception.get("headers", {})
    given = {name: value for name, value in headers.items() if value is not None}
    body: str = reception.get("body") or contract["body"]
    if reception["taken"]:
        message = verify_webhook(reception["secret"], given, body, now=reception["at"])
        assert message["type"] == "job.succeeded"
        return
    with pytest.raises(JobForgeError) as refused:
        verify_webhook(reception["secret"], given, body, now=reception["at"])
    code = reception.get("code", "unauthenticated")
    assert (refused.value.code, refused.value.field) == (code, reception["field"])


def test_each_error_has_the_code_that_the_contract_says() -> None:
    contract = json.loads((CONTRACT / "errors.json").read_text(encoding="utf-8"))
    for row in contract["classes"]:
        kind = getattr(errors, row["name"])
        assert (kind.code, kind.sqlstate) == (row["code"], row["sqlstate"])
        if row["sqlstate"]:
            assert type(error_from_sqlstate(row["sqlstate"], "x", "{}")) is kind


def _types(conn: Connection, function: str) -> dict[str, str]:
    rows = conn.execute(
        """
        select a.name, format_type(a.type, null) as type
          from pg_proc as p, unnest(p.proargnames, p.proargtypes::oid[]) as a(name, type)
         where p.pronamespace = 'jobforge'::regnamespace and p.proname = %s and a.type is not null
        """,
        [function],
    )
    return {row["name"]: row["type"] for row in rows}


def _sql_placeholder(kind: str) -> str:
    if kind.endswith("[]"):
        return f"array(select jsonb_array_elements_text(%s::text::jsonb))::{kind}"
    return f"%s::text::{kind}"


def _sql_value(value: Json) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
