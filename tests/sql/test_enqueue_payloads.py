"""enqueue_payloads creates the same jobs as enqueue_jobs, from one definition and many payloads."""

import psycopg
import pytest
from cluster import Connection
from psycopg.types.json import Jsonb
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    Row,
    as_tenant,
    call,
    call_for_value,
    definition,
    refused,
)
from sql.state_machine import stop_time
from sql.test_enqueue_one import SAME, WRONG

PAYLOADS = [{"n": 1}, {}, {"n": [None, {"deep": "er"}]}]
SHARED = [options for options in SAME if "key" not in options]
FOR_EACH: list[Json] = [{"key": "k"}, {"after": [str(TENANT_A)]}, {"definition": "x"}, None, []]
NO_PAYLOADS: list[Json] = [{}, None, "text", [{}] * 50_001]
LARGE = {"text": "x" * 262_144}


@pytest.mark.parametrize(
    "settings",
    [{}, {"max_running": 1}, {"max_running_per_key": 1, "hooks": True}, {"queue": "limited"}],
    ids=str,
)
def test_the_jobs_are_stored_as_if_enqueued_by_enqueue_jobs(
    conn: Connection, settings: Json
) -> None:
    stop_time(conn)
    definition(conn, **settings)
    call(conn, "put_queue", queue="limited", settings={"max_running": 1})
    for options in SHARED:
        call(conn, "enqueue_jobs", jobs=jobs(options), tenant_id=TENANT_A)
        expected = pop_jobs(conn)
        first = enqueue_payloads(conn, PAYLOADS, options)
        made = pop_jobs(conn)
        assert [row.pop("id").int - first.int for row in made] == [0, 1, 2]
        assert [row.pop("id") for row in expected]
        assert made == expected, options


def test_the_jobs_are_refused_as_if_enqueued_by_enqueue_jobs(conn: Connection) -> None:
    definition(conn)
    for options in WRONG:
        assert_refused_alike(conn, options)
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_pending": 2})
    assert_refused_alike(conn, {"delay_s": 5})
    assert pop_jobs(conn) == []


def assert_refused_alike(conn: Connection, options: Json) -> None:
    with pytest.raises(psycopg.Error) as among_many:
        call(conn, "enqueue_jobs", jobs=jobs(options), tenant_id=TENANT_A)
    with pytest.raises(psycopg.Error) as alike:
        enqueue_payloads(conn, PAYLOADS, options)
    assert alike.value.sqlstate == among_many.value.sqlstate, options
    assert alike.value.diag.message_detail == among_many.value.diag.message_detail


def test_an_invalid_payload_is_named_by_its_index(conn: Connection) -> None:
    definition(conn)
    deep: Json = {}
    for _ in range(65):
        deep = {"in": deep}
    with refused("JF002", field="payload", index=1):
        enqueue_payloads(conn, [{}, 5, []], {})
    with refused("JF007", field="payload", index=2, limit=262_144):
        enqueue_payloads(conn, [{}, {}, LARGE], {})
    with refused("JF007", field="payload", limit=64):
        enqueue_payloads(conn, [{}, deep], {})
    enqueue_payloads(conn, [{}, deep["in"]], {})
    enqueue_payloads(conn, [LARGE | {"text": "x" * 262_000}], {})


def test_options_that_differ_from_job_to_job_are_refused(conn: Connection) -> None:
    definition(conn)
    for options in FOR_EACH:
        with refused("JF002", field="options"):
            enqueue_payloads(conn, PAYLOADS, options)
    for payloads in NO_PAYLOADS:
        with refused("JF002", field="payloads"):
            enqueue_payloads(conn, payloads, {})


def test_the_payloads_together_may_exceed_the_limit_of_one(conn: Connection) -> None:
    definition(conn)
    payloads = [{"text": "x" * 1000, "n": n} for n in range(300)]
    first = enqueue_payloads(conn, payloads, {"version": 1})
    made = pop_jobs(conn)
    assert [row["id"].int - first.int for row in made] == list(range(300))
    assert [row["payload"] for row in made] == payloads


def test_compressed_payloads_from_a_table_have_the_same_limits(
    conn: Connection,
) -> None:
    definition(conn)
    conn.execute(
        "create table public.kept as select jsonb_build_array("
        " jsonb_build_object('text', repeat('x', 1000000))) as payloads"
    )
    # The sixth execution uses a generic plan.
    for _ in range(7):
        with refused("JF007", field="payload", index=0, limit=262_144):
            conn.execute(
                "select jobforge.enqueue_payloads('test', k.payloads, '{}', %s)"
                "  from public.kept as k",
                [TENANT_A],
            )


def test_an_empty_list_of_payloads_creates_no_jobs(conn: Connection) -> None:
    definition(conn)
    assert enqueue_payloads(conn, [], {}) is None
    assert pop_jobs(conn) == []


def test_the_jobs_belong_to_the_tenant_of_their_transaction(conn: Connection) -> None:
    definition(conn)
    with as_tenant(conn, TENANT_B), refused("JF006"):
        enqueue_payloads(conn, PAYLOADS, {})


def jobs(options: Json) -> Jsonb:
    return Jsonb([{"definition": "test", "payload": payload, **options} for payload in PAYLOADS])


def enqueue_payloads(conn: Connection, payloads: Json, options: Json) -> Json:
    return call_for_value(
        conn,
        "enqueue_payloads",
        definition="test",
        payloads=Jsonb(payloads),
        options=Jsonb(options),
        tenant_id=TENANT_A,
    )


def pop_jobs(conn: Connection) -> list[Row]:
    """Return the jobs of the table in order, and empty the table."""
    rows = conn.execute("delete from jobforge.jobs returning *").fetchall()
    return sorted(rows, key=lambda row: row["id"])
