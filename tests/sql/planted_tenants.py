"""Tenants with rows in every table, and the words and IDs that identify such rows.

A planted tenant has jobs in every state, and its own word in every field that it can fill. A word
or ID of a tenant that appears elsewhere was leaked.
"""

from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID, uuid4

from cluster import Connection
from psycopg import sql
from sql.catalog_rules import INSTALLATION
from sql.engine import (
    Json,
    Row,
    call,
    call_for_value,
    claim,
    complete,
    definition,
    enqueue_one,
    heartbeat,
    new_worker,
    note,
    token,
)


@dataclass(frozen=True, slots=True)
class Planted:
    """One tenant: the values that it chose, and the values that the engine chose for it."""

    tenant: UUID
    word: str
    jobs: dict[str, UUID]
    worker: UUID
    leases: dict[str, int]
    fingerprint: str
    key: UUID
    operation: UUID
    things: dict[str, UUID]  # the IDs of its other objects, by kind
    secrets: frozenset[str]

    @property
    def queue(self) -> str:
        return f"{self.word}-queue"

    def token(self, state: str) -> Json:
        return {
            "tenant_id": str(self.tenant),
            "job_id": str(self.jobs[state]),
            "lease": self.leases[state],
        }

    def found_in(self, text: str) -> set[str]:
        """Return the words and IDs of this tenant that a text contains."""
        return {secret for secret in self.secrets if secret in text}


def plant(conn: Connection, tenant: UUID, word: str) -> Planted:
    """Create a tenant with rows in every table by calling functions. The word has no digits."""
    definition(conn, "planted")
    definition(
        conn, "limited", max_running_per_key=5, rate_limit_per_key=1000, rate_period_per_key_s=60
    )
    call(conn, "put_tenant", tenant_id=tenant, settings={"slug": word, "name": f"{word} Ltd"})
    builder = _TenantBuilder(conn, tenant, word, new_worker(), {}, {})
    for grow in _STATES:
        grow(builder)
    return _planted(builder)


def checksum_rows(conn: Connection, *, apart_from: UUID) -> dict[str, Row]:
    """Return a count and checksum of all rows that are not this tenant's, by table.

    The checksum covers system columns, so it shows updates that change nothing, and locks.
    """
    tables = conn.execute(
        "select c.relname from pg_class as c where c.relnamespace = 'jobforge'::regnamespace "
        "and c.relkind in ('r', 'p') and not c.relispartition order by 1"
    ).fetchall()
    imprints = sql.SQL(" union all ").join(_checksum_query(row["relname"]) for row in tables)
    rows = conn.execute(imprints, {"tenant": str(apart_from)}).fetchall()
    return {row["table"]: row for row in rows}


def find_changed_tables(before: dict[str, Row], after: dict[str, Row]) -> list[str]:
    return [table for table, row in after.items() if row != before.get(table)]


def _checksum_query(table: str) -> sql.Composed:
    query = """
        select {} as table, count(*) as rows,
               md5(coalesce(string_agg(r.row, '' order by r.row), '')) as sum
          from (select concat_ws(' ', t.tableoid, t.ctid, t.xmin, t.xmax, to_jsonb(t)) as row
                  from jobforge.{} as t
                 where ({})::text is distinct from %(tenant)s) as r
    """
    return sql.SQL(query).format(
        sql.Literal(table), sql.Identifier(table), sql.SQL(_owner_of(table))
    )


def _owner_of(table: str) -> LiteralString:
    if table == "tenants":
        return "t.id"
    if table == "rate_limits":
        return "split_part(split_part(t.bucket, ':', 2), '/', 1)"
    return "null" if table in INSTALLATION else "t.tenant_id"


@dataclass(frozen=True, slots=True)
class _TenantBuilder:
    """A tenant that is being planted."""

    conn: Connection
    tenant: UUID
    word: str
    worker: UUID
    jobs: dict[str, UUID]
    leases: dict[str, int]

    def enqueue(self, state: str, **options: Json) -> None:
        word = self.word
        fields: dict[str, Json] = {
            "definition": "planted",
            "queue": f"{word}-queue",
            "key": f"{word}-key-{state}",
            "limit_key": f"{word}-limit",
            "tags": [f"{word}-tag"],
            "correlation_id": f"{word}-correlation",
            "created_by": f"{word}-author",
            "artifact_ref": f"{word}-artifact",
            "payload": {"secret": f"{word}-payload"},
        }
        self.jobs[state] = enqueue_one(self.conn, self.tenant, **fields | options)

    def run(self, state: str, **options: Json) -> list[Row]:
        self.enqueue(state, **options)
        rows = claim(self.conn, self.worker, f"{self.word}-queue", tenants=[self.tenant])
        assert [row["job_id"] for row in rows] == [self.jobs[state]]
        self.leases[state] = rows[0]["lease"]
        return rows

    def end(self, state: str, outcome: str, **fields: Json) -> None:
        word = self.word
        error = {"type": f"{word}Error", "message": f"{word}-message"}
        tails = {"stdout_tail": f"{word}-stdout", "stderr_tail": f"{word}-stderr"}
        if outcome != "succeeded":
            fields = fields | {"error": error}
        complete(self.conn, self.worker, self.run(state), outcome, **tails, **fields)

    def set(self, state: str, columns: str) -> None:
        self.conn.execute(
            f"update jobforge.jobs set {columns} where tenant_id = %s and id = %s".encode(),
            [self.tenant, self.jobs[state]],
        )

    def cancel(self, state: str) -> None:
        call(
            self.conn,
            "cancel_job",
            job_id=self.jobs[state],
            reason=f"{self.word}-reason",
            tenant_id=self.tenant,
        )


def _running(builder: _TenantBuilder) -> None:
    jobs = builder.run("running")
    heartbeat(builder.conn, builder.worker, jobs)
    for kind in ("progress", "log", "event"):
        note(builder.conn, builder.worker, jobs, kind, message=f"{builder.word}-note")
    step = {"name": f"{builder.word}-step", "index": 0, "result": f"{builder.word}-result"}
    steps = [token(job) | step for job in jobs]
    call(builder.conn, "save_steps", worker_id=builder.worker, steps=steps)


def _canceling(builder: _TenantBuilder) -> None:
    builder.run("canceling")
    builder.cancel("canceling")


def _limited(builder: _TenantBuilder) -> None:
    builder.run("limited", definition="limited")


def _abandoned(builder: _TenantBuilder) -> None:
    builder.run("abandoned")
    builder.set("abandoned", "lease_expires_at = clock_timestamp() - interval '1 hour'")


def _succeeded(builder: _TenantBuilder) -> None:
    builder.end("succeeded", "succeeded", result={"secret": f"{builder.word}-result"})


def _failed(builder: _TenantBuilder) -> None:
    builder.end("failed", "failed", retry_in_s=3600)


def _waiting(builder: _TenantBuilder) -> None:
    match = {"secret": f"{builder.word}-match"}
    wait = {"kind": "event", "name": f"{builder.word}-event", "index": 0, "match": match}
    builder.end("waiting", "snoozed", retry_in_s=3600, wait=wait)


def _dead(builder: _TenantBuilder) -> None:
    builder.end("dead", "failed", final=True)


def _canceled(builder: _TenantBuilder) -> None:
    builder.enqueue("canceled")
    builder.cancel("canceled")


def _scheduled(builder: _TenantBuilder) -> None:
    builder.enqueue("scheduled", delay_s=3600)


def _blocked(builder: _TenantBuilder) -> None:
    builder.enqueue("blocked")
    builder.set("blocked", "state = 'blocked', queued_at = null")


def _queued(builder: _TenantBuilder) -> None:
    builder.enqueue("queued")


def _expired(builder: _TenantBuilder) -> None:
    builder.enqueue("expired")
    builder.set("expired", "expires_at = clock_timestamp() - interval '1 hour'")


# Order matters: a job that stays queued would be claimed in place of the next one.
_STATES = [
    _running,
    _canceling,
    _limited,
    _abandoned,
    _succeeded,
    _failed,
    _waiting,
    _dead,
    _canceled,
    _scheduled,
    _blocked,
    _queued,
    _expired,
]


def _key(builder: _TenantBuilder) -> UUID:
    key = call_for_value(
        builder.conn,
        "create_api_key",
        name=f"{builder.word}-key",
        role="viewer",
        lookup=builder.word[:8],
        hash=builder.word.encode().ljust(32),
        tenant_id=builder.tenant,
    )
    assert isinstance(key, UUID)
    return key


def _operation(builder: _TenantBuilder) -> UUID:
    operation = call_for_value(
        builder.conn,
        "start_operation",
        kind="cancel",
        filter={"queue": f"{builder.word}-queue"},
        options={"reason": f"{builder.word}-reason"},
        tenant_id=builder.tenant,
    )
    assert isinstance(operation, UUID)
    return operation


def _request(builder: _TenantBuilder) -> None:
    call(
        builder.conn,
        "enqueue_jobs_once",
        request_key=f"{builder.word}-request",
        body_hash=bytes(32),
        jobs=[{"definition": "planted", "queue": f"{builder.word}-queue", "key": builder.word}],
        tenant_id=builder.tenant,
    )


def _webhook(builder: _TenantBuilder) -> dict[str, UUID]:
    """Create an endpoint and send it a test message."""
    word, tenant, webhook = builder.word, builder.tenant, uuid4()
    definition(builder.conn, "connector.webhook.deliver", queue="connectors")
    call(
        builder.conn,
        "create_webhook",
        id=webhook,
        settings={
            "url": f"https://{word}.example/",
            "description": f"{word}-hook",
            "definitions": [f"{word}-definition"],
        },
        secret=word.encode().ljust(61),
        tenant_id=tenant,
    )
    delivery = call_for_value(builder.conn, "test_webhook", id=webhook, tenant_id=tenant)
    assert isinstance(delivery, UUID)
    return {"webhook": webhook, "delivery": delivery}


def wrapped(word: str) -> bytes:
    """Return a tenant's key in wrapped form, which no process can open."""
    return word.encode().ljust(60, b".")


def _connector(builder: _TenantBuilder) -> dict[str, UUID]:
    word, tenant, config = builder.word, builder.tenant, uuid4()
    secrets = {"token": {"sealed": f"{word}sealed"}, "user": {"from": f"env:{word}"}}
    settings: Json = {"name": f"{word}-config", "settings": {"url": word}, "secrets": secrets}
    call(builder.conn, "create_connector_config", id=config, config=settings, tenant_id=tenant)
    call(
        builder.conn,
        "keep_tenant_key",
        key_id=f"{word}-key",
        wrapped=wrapped(word),
        tenant_id=tenant,
    )
    return {"connector": config}


def _events(builder: _TenantBuilder) -> dict[str, UUID]:
    """Create a trigger, an event that it handled, and an unhandled event."""
    word, tenant = builder.word, builder.tenant
    settings: Json = {
        "label": f"{word}-listener",
        "definition": "planted",
        "event": f"{word}.event",
        "payload": {"secret": f"{word}-template"},
    }
    listener, dispatched, waiting = (
        call_for_value(builder.conn, function, **arguments, tenant_id=tenant)
        for function, arguments in [
            ("create_trigger", {"type": "event", "settings": settings}),
            *([("emit_event", {"name": f"{word}.event", "data": {"secret": f"{word}-data"}})] * 2),
        ]
    )
    reaction: Json = {"trigger_id": str(listener), "outcome": "failed", "reason": f"{word}-reason"}
    call(
        builder.conn,
        "record_deliveries",
        deliveries=[{"id": str(dispatched), "deliveries": [reaction]}],
    )
    return {"listener": listener, "event": dispatched, "waiting_event": waiting}


def _schedule(builder: _TenantBuilder) -> dict[str, UUID]:
    """Create a schedule that is due and was also triggered manually."""
    word, tenant = builder.word, builder.tenant
    settings: Json = {
        "label": f"{word}-schedule",
        "definition": "planted",
        "queue": f"{word}-queue",
        "cron": "* * * * *",
        "payload": {"secret": f"{word}-template"},
    }
    schedule = call_for_value(
        builder.conn, "create_trigger", type="schedule", settings=settings, tenant_id=tenant
    )
    call(builder.conn, "run_trigger", id=schedule, tenant_id=tenant)
    assert isinstance(schedule, UUID)
    return {"schedule": schedule}


def _workflow(builder: _TenantBuilder) -> dict[str, UUID]:
    """Create a workflow that contains a workflow, whose second job waits for the first."""
    word = builder.word
    job: Json = {"definition": "planted", "queue": f"{word}-queue"}
    inner: Json = {"nodes": [{"name": f"{word}-inner", **job}]}
    document: Json = {
        "name": f"{word}-workflow",
        "input": {"secret": f"{word}-input"},
        "nodes": [
            {"name": f"{word}-node", **job, "payload": {"secret": f"{word}-payload"}},
            {"name": f"{word}-within", "after": [f"{word}-node"], "workflow": inner},
        ],
    }
    rows = call(builder.conn, "enqueue_workflow", workflow=document, tenant_id=builder.tenant)
    return {"workflow": rows[0]["workflow_id"]}


def _batch(builder: _TenantBuilder) -> dict[str, UUID]:
    word = builder.word
    job: Json = {"definition": "planted", "queue": f"{word}-queue"}
    batch: Json = {"name": f"{word}-batch", "open": True, "on_success": job}
    rows = call(builder.conn, "create_batch", batch=batch, jobs=[job], tenant_id=builder.tenant)
    return {"batch": rows[0]["batch_id"]}


def _statistics(builder: _TenantBuilder) -> None:
    """Insert statistics as a roll-up writes them; the roll-up would wait for all open
    transactions."""
    builder.conn.execute(
        """
        insert into jobforge.minute_statistics
        select %s, date_bin('1 minute', now(), 'epoch'), 1, 1, 1, 1, 1, 1, 1, 1, 1, %s, %s,
               array_fill(1, array[32]), array_fill(1, array[32])
        """,
        [builder.tenant, f"{builder.word}-definition", f"{builder.word}-queue"],
    )


def _annotation(builder: _TenantBuilder) -> str:
    [row] = builder.conn.execute(
        "select fingerprint from jobforge.jobs where tenant_id = %s and id = %s",
        [builder.tenant, builder.jobs["dead"]],
    ).fetchall()
    fingerprint = row["fingerprint"]
    assert isinstance(fingerprint, str)
    changes = {"note": f"{builder.word}-note", "resolved_in": f"{builder.word}-build"}
    call(
        builder.conn,
        "annotate_failure",
        fingerprint=fingerprint,
        changes=changes,
        tenant_id=builder.tenant,
    )
    return fingerprint


def _planted(builder: _TenantBuilder) -> Planted:
    fingerprint, key, operation = _annotation(builder), _key(builder), _operation(builder)
    _request(builder)
    _statistics(builder)
    things = {
        **_webhook(builder),
        **_schedule(builder),
        **_events(builder),
        **_connector(builder),
        **_workflow(builder),
        **_batch(builder),
    }
    named = (
        *(builder.tenant, builder.worker, key, operation),
        *builder.jobs.values(),
        *things.values(),
    )
    ids = set(map(str, named))
    leases = {str(lease) for lease in builder.leases.values()}
    return Planted(
        builder.tenant,
        builder.word,
        builder.jobs,
        builder.worker,
        builder.leases,
        fingerprint,
        key,
        operation,
        things,
        frozenset({builder.word, fingerprint, *ids, *leases}),
    )
