"""Webhook endpoints for tests of the engine, and the messages sent to them."""

from typing import Any
from uuid import UUID, uuid4

from cluster import Connection
from sql.engine import TENANT_A, Json, Row, call, definition

SEALED = bytes(61)  # the length of a sealed secret
CONNECTOR = "connector.webhook.deliver"


def define_connector(conn: Connection) -> None:
    definition(conn, CONNECTOR, queue="connectors", max_attempts=7)


def create_endpoint(conn: Connection, tenant: UUID = TENANT_A, **settings: Json) -> UUID:
    """Create an endpoint; by default it receives all completions."""
    webhook_id = uuid4()
    given = {"url": "https://example.com/hook", "events": ["end"], **settings}
    call(conn, "create_webhook", id=webhook_id, settings=given, secret=SEALED, tenant_id=tenant)
    return webhook_id


def list_sent(conn: Connection, webhook_id: UUID) -> list[Row]:
    """Return everything that was sent to an endpoint, in order."""
    return conn.execute(
        "select * from jobforge.webhook_deliveries where endpoint_id = %s order by id",
        [webhook_id],
    ).fetchall()


def list_sent_events(conn: Connection, webhook_id: UUID) -> list[str]:
    return [row["event"] for row in list_sent(conn, webhook_id)]


def get_endpoint(conn: Connection, webhook_id: UUID, tenant: UUID = TENANT_A) -> Row:
    [row] = call(conn, "get_webhook", id=webhook_id, tenant_id=tenant)
    return row


def record_attempt(
    conn: Connection, webhook_id: UUID, delivery: UUID, tenant: UUID = TENANT_A, **attempt: Any
) -> bool:
    """Report the outcome of an attempt as a worker does; return whether the endpoint is enabled."""
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


# Messages and completions match: finished jobs that an endpoint wants and that have no message,
# and messages whose job has not finished in that way. Endpoints of these tests want every
# completion and nothing else.
UNMATCHED = """
    with ended as (
        select j.tenant_id, j.id, 'job.' || j.state as event
          from jobforge.all_jobs as j
         where j.state in ('succeeded', 'canceled', 'dead') and j.definition <> %(connector)s
    ), messages as (
        select d.tenant_id, d.endpoint_id, d.subject_id as id, d.event
          from jobforge.webhook_deliveries as d
    )
    select count(*) as n from (
        (select e.tenant_id, w.id as endpoint_id, e.id, e.event
           from ended as e join jobforge.webhook_endpoints as w on w.tenant_id = e.tenant_id
         except all select * from messages)
        union all
        (select * from messages
         except all select e.tenant_id, w.id, e.id, e.event
           from ended as e join jobforge.webhook_endpoints as w on w.tenant_id = e.tenant_id)) as x
"""


def unmatched_messages(conn: Connection) -> int:
    """Return completions without a message, messages without a completion, and unsent messages."""
    [row] = conn.execute(UNMATCHED.encode(), {"connector": CONNECTOR}).fetchall()
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
