"""Tenants with rows in every table, and the words and ids that give such a row away.

A planted tenant has jobs in every state, and its own word in every field that it can fill. A word
or id of a tenant that turns up elsewhere was revealed.
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
    """One tenant: what it chose itself, and what the engine chose for it."""

    tenant: UUID
    word: str
    jobs: dict[str, UUID]
    worker: UUID
    leases: dict[str, int]
    fingerprint: str
    key: UUID
    operation: UUID
    things: dict[str, UUID]  # the ids of what else it has, by what they are
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
        """What of this tenant's a text reveals."""
        return {secret for secret in self.secrets if secret in text}


def plant(conn: Connection, tenant: UUID, word: str) -> Planted:
    """A tenant with rows in every table, made through the functions. The word has no digits."""
    definition(conn, "planted")
    definition(
        conn, "limited", max_running_per_key=5, rate_limit_per_key=1000, rate_period_per_key_s=60
    )
    call(conn, "put_tenant", tenant_id=tenant, settings={"slug": word, "name": f"{word} Ltd"})
    growing = _Growing(conn, tenant, word, new_worker(), {}, {})
    for grow in _STATES:
        grow(growing)
    return _planted(growing)


def imprint(conn: Connection, *, apart_from: UUID) -> dict[str, Row]:
    """All rows that are not this tenant's, to the byte, by table: count and checksum.

    The system columns are in it, so an update that changes nothing shows, and so does a lock.
    """
    tables = conn.execute(
        "select c.relname from pg_class as c where c.relnamespace = 'jobforge'::regnamespace "
        "and c.relkind in ('r', 'p') and not c.relispartition order by 1"
    ).fetchall()
    imprints = sql.SQL(" union all ").join(_imprint_of(row["relname"]) for row in tables)
    rows = conn.execute(imprints, {"tenant": str(apart_from)}).fetchall()
    return {row["table"]: row for row in rows}


def touched_tables(before: dict[str, Row], after: dict[str, Row]) -> list[str]:
    return [table for table, row in after.items() if row != before.get(table)]


def _imprint_of(table: str) -> sql.Composed:
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
class _Growing:
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


def _running(growing: _Growing) -> None:
    jobs = growing.run("running")
    heartbeat(growing.conn, growing.worker, jobs)
    for kind in ("progress", "log", "event"):
        note(growing.conn, growing.worker, jobs, kind, message=f"{growing.word}-note")
    step = {"name": f"{growing.word}-step", "index": 0, "result": f"{growing.word}-result"}
    steps = [token(job) | step for job in jobs]
    call(growing.conn, "save_steps", worker_id=growing.worker, steps=steps)


def _canceling(growing: _Growing) -> None:
    growing.run("canceling")
    growing.cancel("canceling")


def _limited(growing: _Growing) -> None:
    growing.run("limited", definition="limited")


def _abandoned(growing: _Growing) -> None:
    growing.run("abandoned")
    growing.set("abandoned", "lease_expires_at = clock_timestamp() - interval '1 hour'")


def _succeeded(growing: _Growing) -> None:
    growing.end("succeeded", "succeeded", result={"secret": f"{growing.word}-result"})


def _failed(growing: _Growing) -> None:
    growing.end("failed", "failed", retry_in_s=3600)


def _waiting(growing: _Growing) -> None:
    match = {"secret": f"{growing.word}-match"}
    wait = {"kind": "event", "name": f"{growing.word}-event", "index": 0, "match": match}
    growing.end("waiting", "snoozed", retry_in_s=3600, wait=wait)


def _dead(growing: _Growing) -> None:
    growing.end("dead", "failed", final=True)


def _canceled(growing: _Growing) -> None:
    growing.enqueue("canceled")
    growing.cancel("canceled")


def _scheduled(growing: _Growing) -> None:
    growing.enqueue("scheduled", delay_s=3600)


def _blocked(growing: _Growing) -> None:
    growing.enqueue("blocked")
    growing.set("blocked", "state = 'blocked', queued_at = null")


def _queued(growing: _Growing) -> None:
    growing.enqueue("queued")


def _expired(growing: _Growing) -> None:
    growing.enqueue("expired")
    growing.set("expired", "expires_at = clock_timestamp() - interval '1 hour'")


# In this order: a job that stays queued would be claimed in place of the next one.
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


def _key(growing: _Growing) -> UUID:
    key = call_for_value(
        growing.conn,
        "create_api_key",
        name=f"{growing.word}-key",
        role="viewer",
        lookup=growing.word[:8],
        hash=growing.word.encode().ljust(32),
        tenant_id=growing.tenant,
    )
    assert isinstance(key, UUID)
    return key


def _operation(growing: _Growing) -> UUID:
    operation = call_for_value(
        growing.conn,
        "start_operation",
        kind="cancel",
        filter={"queue": f"{growing.word}-queue"},
        options={"reason": f"{growing.word}-reason"},
        tenant_id=growing.tenant,
    )
    assert isinstance(operation, UUID)
    return operation


def _request(growing: _Growing) -> None:
    call(
        growing.conn,
        "enqueue_jobs_once",
        request_key=f"{growing.word}-request",
        body_hash=bytes(32),
        jobs=[{"definition": "planted", "queue": f"{growing.word}-queue", "key": growing.word}],
        tenant_id=growing.tenant,
    )


def _webhook(growing: _Growing) -> dict[str, UUID]:
    """An endpoint that was sent a test."""
    word, tenant, webhook = growing.word, growing.tenant, uuid4()
    definition(growing.conn, "connector.webhook.deliver", queue="connectors")
    call(
        growing.conn,
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
    delivery = call_for_value(growing.conn, "test_webhook", id=webhook, tenant_id=tenant)
    assert isinstance(delivery, UUID)
    return {"webhook": webhook, "delivery": delivery}


def wrapped(word: str) -> bytes:
    """A tenant's key, as nobody can open it."""
    return word.encode().ljust(60, b".")


def _connector(growing: _Growing) -> dict[str, UUID]:
    word, tenant, config = growing.word, growing.tenant, uuid4()
    secrets = {"token": {"sealed": f"{word}sealed"}, "user": {"from": f"env:{word}"}}
    settings: Json = {"name": f"{word}-config", "settings": {"url": word}, "secrets": secrets}
    call(growing.conn, "create_connector_config", id=config, config=settings, tenant_id=tenant)
    call(
        growing.conn,
        "keep_tenant_key",
        key_id=f"{word}-key",
        wrapped=wrapped(word),
        tenant_id=tenant,
    )
    return {"connector": config}


def _events(growing: _Growing) -> dict[str, UUID]:
    """A trigger, an event that it acted on, and one that nobody has been at."""
    word, tenant = growing.word, growing.tenant
    settings: Json = {
        "label": f"{word}-listener",
        "definition": "planted",
        "event": f"{word}.event",
        "payload": {"secret": f"{word}-template"},
    }
    listener, dispatched, waiting = (
        call_for_value(growing.conn, function, **arguments, tenant_id=tenant)
        for function, arguments in [
            ("create_trigger", {"type": "event", "settings": settings}),
            *([("emit_event", {"name": f"{word}.event", "data": {"secret": f"{word}-data"}})] * 2),
        ]
    )
    reaction: Json = {"trigger_id": str(listener), "outcome": "failed", "reason": f"{word}-reason"}
    call(
        growing.conn,
        "record_deliveries",
        deliveries=[{"id": str(dispatched), "deliveries": [reaction]}],
    )
    return {"listener": listener, "event": dispatched, "waiting_event": waiting}


def _schedule(growing: _Growing) -> dict[str, UUID]:
    """A schedule that is due, and was asked for by hand."""
    word, tenant = growing.word, growing.tenant
    settings: Json = {
        "label": f"{word}-schedule",
        "definition": "planted",
        "queue": f"{word}-queue",
        "cron": "* * * * *",
        "payload": {"secret": f"{word}-template"},
    }
    schedule = call_for_value(
        growing.conn, "create_trigger", type="schedule", settings=settings, tenant_id=tenant
    )
    call(growing.conn, "run_trigger", id=schedule, tenant_id=tenant)
    assert isinstance(schedule, UUID)
    return {"schedule": schedule}


def _workflow(growing: _Growing) -> dict[str, UUID]:
    """One with a workflow in it, whose second job waits for the first."""
    word = growing.word
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
    rows = call(growing.conn, "enqueue_workflow", workflow=document, tenant_id=growing.tenant)
    return {"workflow": rows[0]["workflow_id"]}


def _batch(growing: _Growing) -> dict[str, UUID]:
    word = growing.word
    job: Json = {"definition": "planted", "queue": f"{word}-queue"}
    batch: Json = {"name": f"{word}-batch", "open": True, "on_success": job}
    rows = call(growing.conn, "create_batch", batch=batch, jobs=[job], tenant_id=growing.tenant)
    return {"batch": rows[0]["batch_id"]}


def _statistics(growing: _Growing) -> None:
    """As a roll-up leaves them, which would have to wait for everybody's transactions."""
    growing.conn.execute(
        """
        insert into jobforge.minute_statistics
        select %s, date_bin('1 minute', now(), 'epoch'), 1, 1, 1, 1, 1, 1, 1, 1, 1, %s, %s,
               array_fill(1, array[32]), array_fill(1, array[32])
        """,
        [growing.tenant, f"{growing.word}-definition", f"{growing.word}-queue"],
    )


def _annotation(growing: _Growing) -> str:
    [row] = growing.conn.execute(
        "select fingerprint from jobforge.jobs where tenant_id = %s and id = %s",
        [growing.tenant, growing.jobs["dead"]],
    ).fetchall()
    fingerprint = row["fingerprint"]
    assert isinstance(fingerprint, str)
    changes = {"note": f"{growing.word}-note", "resolved_in": f"{growing.word}-build"}
    call(
        growing.conn,
        "annotate_failure",
        fingerprint=fingerprint,
        changes=changes,
        tenant_id=growing.tenant,
    )
    return fingerprint


def _planted(growing: _Growing) -> Planted:
    fingerprint, key, operation = _annotation(growing), _key(growing), _operation(growing)
    _request(growing)
    _statistics(growing)
    things = {
        **_webhook(growing),
        **_schedule(growing),
        **_events(growing),
        **_connector(growing),
        **_workflow(growing),
        **_batch(growing),
    }
    named = (
        *(growing.tenant, growing.worker, key, operation),
        *growing.jobs.values(),
        *things.values(),
    )
    ids = set(map(str, named))
    leases = {str(lease) for lease in growing.leases.values()}
    return Planted(
        growing.tenant,
        growing.word,
        growing.jobs,
        growing.worker,
        growing.leases,
        fingerprint,
        key,
        operation,
        things,
        frozenset({growing.word, fingerprint, *ids, *leases}),
    )
