"""Errors of calls: one class for each reason, and no partial effect."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from cluster import Connect, Connection, Database
from integration.call_setup import A_JOB, TENANT_A, TENANT_B, WORKER, count_jobs

from jobforge import calls, db, errors
from jobforge.calls import Call
from jobforge.db import driver
from jobforge.errors import ConfigError, Denied, Invalid, JobForgeError, Unavailable
from jobforge.types.jobs import JobRequest, Outcome, OutcomeReport, State, Token

NOWHERE = "postgresql://ada:secret@127.0.0.1:1/app"

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("mail")]


def _too_deep(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return {"deep": value}


ERASED, CONFIG = uuid4(), uuid4()
TOKEN = Token(TENANT_A, uuid4(), 1)
CONNECTOR = """{
    "name": "crm", "connector": "http.request", "settings": {"url": "https://api.example"},
    "secrets": {"token": {"from": "env:CRM_TOKEN"}}
}"""
REFUSED: dict[str, Callable[[], Call[object]]] = {
    "JF001": lambda: calls.enqueue_job(A_JOB),
    "JF002": lambda: calls.enqueue_job(A_JOB._replace(priority=40_000)).for_tenant(TENANT_A),
    "JF003": lambda: calls.complete_job(WORKER, OutcomeReport(*TOKEN, Outcome.SUCCEEDED)),
    "JF004": lambda: calls.get_job(uuid4()).for_tenant(TENANT_A),
    "JF005": lambda: calls.put_tenant(TENANT_B, {"slug": "acme"}),
    "JF006": lambda: calls.enqueue_job(A_JOB, tenant_id=TENANT_B).for_tenant(TENANT_A),
    "JF007": lambda: calls.enqueue_job(JobRequest("mail", {"x": "x" * 300_000})).for_tenant(
        TENANT_A
    ),
    "JF008": lambda: calls.enqueue_jobs([A_JOB] * 3).for_tenant(TENANT_A),
    "JF009": lambda: calls.enqueue_job(JobRequest("unknown")).for_tenant(TENANT_A),
    "JF010": lambda: calls.enqueue_job(JobRequest("inactive")).for_tenant(TENANT_A),
    "JF011": lambda: calls.enqueue_jobs(
        [A_JOB._replace(key="k", on_conflict="raise")] * 2
    ).for_tenant(TENANT_A),
    "JF012": lambda: calls.claim_jobs(WORKER, {"default": 1}),
    "JF013": lambda: calls.enqueue_jobs_once(
        [A_JOB], request_key="asked", body_hash=bytes(32)
    ).for_tenant(TENANT_A),
    "JF014": lambda: calls.enqueue_job(A_JOB).for_tenant(ERASED),
    "JF015": lambda: calls.edit_connector_config(
        CONFIG, {"settings": {"url": "https://elsewhere.example"}}
    ).for_tenant(TENANT_A),
}
BY_SQLSTATE = {
    error.sqlstate: error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, JobForgeError) and error.sqlstate
}


def test_every_error_code_of_the_engine_is_provoked_below() -> None:
    assert set(REFUSED) == set(BY_SQLSTATE)


@pytest.mark.parametrize("code", REFUSED)
async def test_an_error_of_the_engine_is_raised_as_its_class(
    code: str, conn: Connection, database: Database
) -> None:
    conn.execute("select jobforge.put_definition('inactive', 1, '{\"is_active\": false}')")
    settings = '{"slug": "acme", "max_pending": 2}'
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, settings])
    conn.execute(
        "insert into jobforge.idempotent_requests (tenant_id, created_at, key, body_hash)"
        " values (%s, clock_timestamp(), 'asked', 'of another body')",
        [TENANT_A],
    )
    conn.execute("select jobforge.delete_tenant(%s)", [ERASED])
    conn.execute(
        "select jobforge.create_connector_config(%s, %s::jsonb, %s)", [CONFIG, CONNECTOR, TENANT_A]
    )
    with db.connect(database.url_as("admin_login")) as mine:
        if code == "JF012":
            mine.execute("set default_transaction_isolation = 'repeatable read'")
        with pytest.raises(BY_SQLSTATE[code]) as refused:
            db.run(mine, REFUSED[code]())
    assert type(refused.value) is BY_SQLSTATE[code]
    if code != "JF012":
        async with db.Database(database.url_as("admin_login")) as pool:
            with pytest.raises(BY_SQLSTATE[code]) as refused_too:
                await pool.run(REFUSED[code]())
        assert refused_too.value.detail.keys() == refused.value.detail.keys()
    assert count_jobs(conn) == 0


async def test_an_error_names_the_field_and_the_index(pool: db.Database) -> None:
    jobs = [A_JOB, A_JOB._replace(queue="no such name")]
    with pytest.raises(Invalid) as refused:
        await pool.run(calls.enqueue_jobs(jobs).for_tenant(TENANT_A))
    assert (refused.value.field, refused.value.detail["index"]) == ("queue", 1)


async def test_a_function_of_another_role_is_denied(pool: db.Database) -> None:
    with pytest.raises(Denied):
        await pool.run(calls.claim_jobs(WORKER, {"default": 1}))


HOSTILE: dict[str, Any] = {
    "NaN": {"n": float("nan")},
    "infinity": {"n": float("-inf")},
    "NUL": {"s": "a\0b"},
    "half a character": {"s": "\udfff"},
    "an integer of 5000 digits": {"n": 10**5000},
    "65 levels": _too_deep(65),
    "300 levels": _too_deep(300),
    "no object": [1, 2],
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_payload_is_refused_and_nothing_is_enqueued(
    name: str, pool: db.Database, conn: Connection
) -> None:
    jobs = [A_JOB, JobRequest("mail", HOSTILE[name]), A_JOB]
    with pytest.raises(Invalid) as refused:
        await pool.run(calls.enqueue_jobs(jobs).for_tenant(TENANT_A))
    assert refused.value.field == "payload"
    with pytest.raises(Invalid):
        await pool.run(calls.enqueue_job(jobs[1]).for_tenant(TENANT_A))
    assert count_jobs(conn) == 0
    await pool.run(calls.enqueue_jobs([A_JOB]).for_tenant(TENANT_A))
    assert count_jobs(conn) == 1


async def test_a_payload_that_psql_wrote_is_read_exactly(
    conn: Connection, database: Database
) -> None:
    digits = "7" * 308
    conn.execute(
        "select jobforge.enqueue_job('mail', %s::jsonb, '{}', %s)",
        [f'{{"long": {digits[:30]}, "longest": {digits}}}', TENANT_A],
    )
    with db.connect(database.url_as("worker_login")) as mine:
        [job] = db.run(mine, calls.claim_jobs(WORKER, {"default": 1}))
    assert job.payload["long"] == int(digits[:30])
    assert str(job.payload["longest"]) == digits


def _settle_oddly(conn: Connection, odd: str) -> None:
    """Complete an attempt as a worker in another language may, with JSON that JobForge would not
    send.
    """
    conn.execute("select jobforge.enqueue_job('mail', '{}', '{}', %s)", [TENANT_A])
    conn.execute(
        """
        select c.* from jobforge.claim_jobs(%s, '{default}', '{1}') as j,
               jobforge.complete_jobs(%s, jsonb_build_array(%s::jsonb || jsonb_build_object(
                   'tenant_id', j.tenant_id, 'job_id', j.job_id, 'lease', j.lease))) as c
        """,
        [WORKER, WORKER, odd],
    )


async def test_an_error_nested_too_deep_does_not_break_the_list(
    pool: db.Database, conn: Connection
) -> None:
    deep = "[" * 5000 + "]" * 5000
    _settle_oddly(conn, f'{{"outcome": "failed", "final": true, "error": {{"message": {deep}}}}}')
    [job] = await pool.run(calls.list_jobs().for_tenant(TENANT_A))
    assert job.state is State.DEAD


async def test_a_snooze_beyond_what_drivers_can_read_does_not_break_the_list(
    pool: db.Database, conn: Connection
) -> None:
    _settle_oddly(conn, '{"outcome": "snoozed", "run_at": "20000-01-01T00:00:00Z"}')
    assert len(await pool.run(calls.list_jobs().for_tenant(TENANT_A))) == 1


ODD_ARGUMENTS: dict[str, Callable[[], Call[object]]] = {
    "NUL in a text": lambda: calls.cancel_job(uuid4(), reason="a\0b"),
    "half a character in a text": lambda: calls.cancel_job(uuid4(), reason="\ud800"),
    "a number beyond integer": lambda: calls.list_jobs(limit=2**40),
    "a number beyond bigint": lambda: calls.list_jobs(limit=2**70),
    "a time without a zone": lambda: calls.reschedule_job(uuid4(), datetime(2030, 1, 1)),  # noqa: DTZ001
}


@pytest.mark.parametrize("name", ODD_ARGUMENTS)
async def test_an_argument_that_cannot_be_sent_is_invalid(name: str, pool: db.Database) -> None:
    with pytest.raises(Invalid):
        await pool.run(ODD_ARGUMENTS[name]().for_tenant(TENANT_A))


async def test_an_unreachable_database_is_unavailable_and_hides_the_password() -> None:
    with pytest.raises(Unavailable) as lost:
        await db.Database(NOWHERE).open()
    with pytest.raises(Unavailable) as lost_too, db.connect(NOWHERE):
        pass
    assert "secret" not in f"{lost.value} {lost_too.value}"


@pytest.mark.parametrize("url", ["postgresql://[::1", "nonsense", "postgresql://u:se%cret@h/d"])
def test_an_invalid_url_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError):
        db.Database(url)


async def test_a_connection_that_was_cut_while_idle_is_replaced_without_an_error(
    pool: db.Database, conn: Connection
) -> None:
    await pool.run(calls.list_jobs().for_tenant(TENANT_A))
    _kill_backends(conn, "client_login")
    assert await pool.run(calls.list_jobs().for_tenant(TENANT_A)) == []


async def test_a_connection_that_is_cut_in_use_is_unavailable_and_the_pool_recovers(
    pool: db.Database, conn: Connection
) -> None:
    async with pool.connection() as own:
        _kill_backends(conn, "client_login")
        with pytest.raises(Unavailable):
            await db.arun(own, calls.list_jobs().for_tenant(TENANT_A))
    assert await pool.run(calls.list_jobs().for_tenant(TENANT_A)) == []


async def test_a_commit_that_fails_is_unavailable(pool: db.Database, conn: Connection) -> None:
    async def enqueue_and_lose_the_connection() -> None:
        async with pool.tenant(TENANT_A) as scope:
            await scope.run(calls.enqueue_job(A_JOB))
            _kill_backends(conn, "client_login")

    with pytest.raises(Unavailable):
        await enqueue_and_lose_the_connection()
    assert count_jobs(conn) == 0


def _kill_backends(conn: Connection, login: str) -> None:
    conn.execute(
        """
        select pg_terminate_backend(pid, 10000) from pg_stat_activity
         where usename = %s and datname = current_database()
        """,
        [login],
    )


async def test_a_wait_for_a_lock_has_a_time_limit(database: Database, connect: Connect) -> None:
    other = connect(autocommit=False)
    key = '{"key": "k"}'
    other.execute("select jobforge.enqueue_job('mail', '{}', %s::jsonb, %s)", [key, TENANT_A])
    brief = driver.Timeouts(lock_s=0.02)
    url = database.url_as("client_login")
    with db.connect(url, timeouts=brief) as mine, pytest.raises(JobForgeError) as refused:
        db.run(mine, calls.enqueue_job(A_JOB._replace(key="k")).for_tenant(TENANT_A))
    assert refused.value.detail == {"sqlstate": "55P03"}
