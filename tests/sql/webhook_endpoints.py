"""Webhook endpoints for tests of the engine, and what is sent to them."""

from typing import Any
from uuid import UUID, uuid4

from cluster import Connection
from sql.engine import TENANT_A, Json, Row, call, definition

SEALED = bytes(61)  # as long as a sealed secret is
CONNECTOR = "connector.webhook.deliver"


def with_connector(conn: Connection) -> None:
    definition(conn, CONNECTOR, queue="connectors", max_attempts=7)


def endpoint(conn: Connection, tenant: UUID = TENANT_A, **settings: Json) -> UUID:
    """A new endpoint, which hears of every end unless told otherwise."""
    webhook_id = uuid4()
    given = {"url": "https://example.com/hook", "events": ["end"], **settings}
    call(conn, "create_webhook", id=webhook_id, settings=given, secret=SEALED, tenant_id=tenant)
    return webhook_id


def sent(conn: Connection, webhook_id: UUID) -> list[Row]:
    """Everything that an endpoint was told, in order."""
    return conn.execute(
        "select * from jobforge.webhook_deliveries where endpoint_id = %s order by id",
        [webhook_id],
    ).fetchall()


def heard(conn: Connection, webhook_id: UUID) -> list[str]:
    return [row["event"] for row in sent(conn, webhook_id)]


def shown(conn: Connection, webhook_id: UUID, tenant: UUID = TENANT_A) -> Row:
    [row] = call(conn, "get_webhook", id=webhook_id, tenant_id=tenant)
    return row


def tried(
    conn: Connection, webhook_id: UUID, delivery: UUID, tenant: UUID = TENANT_A, **attempt: Any
) -> bool:
    """What a worker says of an attempt; answers whether the endpoint is enabled."""
    [row] = call(
        conn,
        "record_delivery",
        id=webhook_id,
        delivery_id=delivery,
        attempt=attempt,
        tenant_id=tenant,
    )
    enabled = row["record_delivery"]
    assert isinstance(enabled, bool)
    return enabled


# Ended jobs that somebody wants to hear of and that have no message, and messages whose job has not
# ended so: I22, both ways. Endpoints of these tests want every end and nothing else.
UNTOLD = """
    with ended as (
        select j.tenant_id, j.id, 'job.' || j.state as event
          from jobforge.all_jobs as j
         where j.state in ('succeeded', 'canceled', 'dead') and j.definition <> %(connector)s
    ), told as (
        select d.tenant_id, d.endpoint_id, d.subject_id as id, d.event
          from jobforge.webhook_deliveries as d
    )
    select count(*) as n from (
        (select e.tenant_id, w.id as endpoint_id, e.id, e.event
           from ended as e join jobforge.webhook_endpoints as w on w.tenant_id = e.tenant_id
         except all select * from told)
        union all
        (select * from told
         except all select e.tenant_id, w.id, e.id, e.event
           from ended as e join jobforge.webhook_endpoints as w on w.tenant_id = e.tenant_id)) as x
"""


def untold(conn: Connection) -> int:
    """Ends without a message, and messages without an end; also messages that nobody sends."""
    [row] = conn.execute(UNTOLD.encode(), {"connector": CONNECTOR}).fetchall()
    [unsent] = conn.execute(
        """
        select count(*) as n from jobforge.webhook_deliveries as d
         where not exists (select from jobforge.all_jobs as j
                            where j.tenant_id = d.tenant_id and j.id = d.job_id
                              and j.definition = %s and j.source = 'system'
                              and j.source_ref = d.subject_id::text)
        """,
        [CONNECTOR],
    ).fetchall()
    return int(row["n"]) + int(unsent["n"])
