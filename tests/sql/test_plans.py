"""Every statement of the hot paths uses its index, whatever the statistics say.

A statement that reads or sorts the whole backlog makes a queue collapse under load.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import pytest
from cluster import Connection
from sql.backlog import HISTORIES, LARGE, ROWS, WORKER, Change, fill
from sql.engine import (
    Json,
    Row,
    call,
    claim,
    complete,
    definition,
    enqueue,
    heartbeat,
    new_worker,
    note,
    reap,
    succeed,
)
from sql.query_plans import Plan, Recorder, Step, rows_read

# Tables that grow with the backlog or with the history.
LONG = {
    *("jobs", "finished_jobs", "attempts", "job_events", "idempotency_keys"),
    *("heartbeats", "audit_log"),
}
SCANS = {"INDEXSCAN", "INDEXONLYSCAN"}
SORTS = {"SORT", "INCREMENTALSORT"}


Find = Callable[[Connection], list[Row]]


@dataclass(frozen=True, slots=True)
class Act:
    """An action on the jobs that `find` returns, ten at most.

    It declares the indexes by which it may find them, and how many rows, index entries included, it
    may read of a backlog of 30,000.
    """

    name: str
    indexes: set[str]
    find: Find
    do: Callable[[Connection, list[Row]], object]
    reads: int = 1000


def _nothing(_: Connection) -> list[Row]:
    return []


def _held(conn: Connection) -> list[Row]:
    """Return ten running jobs in the form in which their worker has them."""
    return conn.execute(
        """
        select tenant_id, id as job_id, lease, started_at from jobforge.jobs
         where state = 'running' and worker_id = %s and lease_expires_at > clock_timestamp()
         limit 10
        """,
        [WORKER],
    ).fetchall()


def _silent(conn: Connection) -> list[Row]:
    """Return ten running jobs that have not sent a heartbeat."""
    jobs = _held(conn)
    conn.execute("delete from jobforge.heartbeats where job_id = any(%s)", [_ids(jobs)])
    return jobs


def _beating(conn: Connection) -> list[Row]:
    """Return ten jobs whose lease was extended by heartbeats after the claim's lease had
    expired."""
    jobs = _held(conn)
    heartbeat(conn, WORKER, jobs, lease_s=3600)
    conn.execute(
        "update jobforge.jobs set lease_expires_at = started_at - interval '1 hour'"
        " where id = any(%s)",
        [_ids(jobs)],
    )
    return jobs


def _one(state: str) -> Find:
    """Return a job of the large tenant."""
    return lambda conn: conn.execute(
        "select id from jobforge.all_jobs where tenant_id = %s and state = %s limit 1",
        [LARGE, state],
    ).fetchall()


def _claiming(queue: str = "default", tenants: list[UUID] | None = None) -> Callable[..., object]:
    return lambda conn, _: claim(conn, new_worker(), queue, limit=10, tenants=tenants)


def _completing(outcome: str, **fields: Json) -> Callable[..., object]:
    return lambda conn, jobs: complete(conn, WORKER, jobs, outcome, **fields)


def _complete_twice(conn: Connection, jobs: list[Row]) -> None:
    complete(conn, WORKER, jobs)
    assert {row["status"] for row in complete(conn, WORKER, jobs)} == {"ok"}


def _hooked(conn: Connection) -> list[Row]:
    """Return ten running jobs that will get hook jobs."""
    definition(conn, "planned:hooks", queue="hooks")
    jobs = _held(conn)
    conn.execute("update jobforge.jobs set flags = 1 where id = any(%s)", [_ids(jobs)])
    return jobs


def _ids(jobs: list[Row]) -> list[UUID]:
    return [job["job_id"] for job in jobs]


def _enqueuing(**options: Json) -> Callable[..., object]:
    return lambda conn, _: enqueue(conn, LARGE, 10, definition="planned", **options)


def _calling(function: str, **arguments: Json) -> Callable[..., object]:
    """Call a function for the large tenant, with the found job if there is one."""

    def do(conn: Connection, jobs: list[Row]) -> object:
        job = {"job_id": jobs[0]["id"]} if jobs else {}
        return call(conn, function, **arguments, **job, tenant_id=LARGE)

    return do


def _audit_page(conn: Connection) -> list[Row]:
    """Return an entry in the middle of the audit log, where a page ended."""
    return conn.execute(
        "select id from jobforge.audit_log order by id offset %s limit 1", [ROWS // 10]
    ).fetchall()


def _list_audit(tenant: UUID | None) -> Callable[..., object]:
    def do(conn: Connection, page: list[Row]) -> None:
        before = page[0]["id"] if page else None
        found = call(conn, "list_audit", before=before, tenant_id=tenant)
        assert len(found) == 50

    return do


def _listing(**fields: Json) -> Callable[..., object]:
    return _calling("list_jobs", filter=fields)


def _started(kind: str) -> Find:
    """Start an operation that is due, and return no jobs."""

    def start(conn: Connection) -> list[Row]:
        call(conn, "start_operation", kind=kind, filter={"queue": "default"}, tenant_id=LARGE)
        return []

    return start


def _advance(conn: Connection, _: list[Row]) -> object:
    return call(conn, "advance_operations", limit=10)


READY = {"jobs_ready", "jobs_gated", "jobs_due"}
HELD = {"jobs_held_by_tenant", "jobs_held_by_definition", "jobs_held_by_queue"}
KEYED = {"jobs_ready", "jobs_pkey", "idempotency_keys_pkey"}
TOKEN = {"jobs_pkey", "attempts_pkey"}
BEAT = TOKEN | {"heartbeats_pkey"}
PAGE = {"jobs_pkey", "finished_jobs_pkey", "heartbeats_pkey"}
DEAD = PAGE | {"jobs_dead", "jobs_dead_alike"}
WHOLE = {*PAGE, "attempts_pkey", "job_events_of_a_job"}
ACTS = [
    Act("claim", READY | HELD, _nothing, _claiming()),
    Act("claim for one tenant", READY | HELD, _nothing, _claiming(tenants=[LARGE])),
    Act("claim from an empty queue", READY | HELD, _nothing, _claiming("another")),
    Act("complete", TOKEN, _held, _completing("succeeded")),
    Act("succeed", TOKEN, _held, lambda conn, jobs: succeed(conn, WORKER, jobs)),
    Act("complete twice", TOKEN | PAGE, _held, _complete_twice),
    Act("fail", TOKEN, _held, _completing("failed", error={"type": "E"})),
    Act("release", TOKEN, _held, _completing("released")),
    Act("heartbeat", BEAT, _held, lambda conn, jobs: heartbeat(conn, WORKER, jobs)),
    Act("first heartbeat", BEAT, _silent, lambda conn, jobs: heartbeat(conn, WORKER, jobs)),
    Act("complete with hooks", TOKEN | {"jobs_ready"}, _hooked, _completing("succeeded")),
    Act("fail with hooks", TOKEN | {"jobs_ready"}, _hooked, _completing("failed", final=True)),
    Act("note", TOKEN, _held, lambda conn, jobs: note(conn, WORKER, jobs, message="hello")),
    Act("list notes", WHOLE, _one("running"), _calling("list_notes")),
    Act("reap", BEAT | {"jobs_leased", "jobs_expiring"}, _nothing, lambda conn, _: reap(conn)),
    Act(
        "free blocked jobs",
        {"jobs_blocked", "jobs_pkey"},
        _nothing,
        lambda conn, _: call(conn, "free_blocked_jobs"),
    ),
    Act(
        "reap after heartbeats",
        BEAT | {"jobs_leased", "jobs_expiring"},
        _beating,
        lambda conn, _: reap(conn),
    ),
    Act("enqueue", {"jobs_ready"}, _nothing, _enqueuing()),
    Act("enqueue one", {"jobs_ready"}, _nothing, _calling("enqueue_job", definition="planned")),
    Act("enqueue with a key", KEYED, _nothing, _enqueuing(key="k")),
    Act("list", PAGE, _nothing, _listing()),
    Act("list oldest", PAGE, _nothing, _calling("list_jobs", order="oldest")),
    Act("list queued", PAGE, _nothing, _listing(state="queued")),
    Act("list finished", PAGE, _nothing, _listing(state="succeeded")),
    Act(
        "list dead alike",
        PAGE | {"jobs_dead_alike"},
        _nothing,
        _listing(state="dead", fingerprint="x"),
    ),
    Act("get", WHOLE, _one("queued"), _calling("get_job")),
    Act("get finished", WHOLE, _one("succeeded"), _calling("get_job")),
    # Counts up to a thousand jobs that go first.
    Act("explain", PAGE | READY, _one("queued"), _calling("explain_job"), reads=5000),
    Act("get running", WHOLE, _one("running"), _calling("get_job")),
    Act("explain running", WHOLE, _one("running"), _calling("explain_job")),
    # Reads one row of each of at least 13 months, because the order is that of IDs.
    Act("list audit", {"audit_log_of_a_tenant"}, _nothing, _list_audit(LARGE), reads=200),
    Act("list audit of all", {"audit_log_pkey"}, _nothing, _list_audit(None), reads=200),
    Act("page audit", {"audit_log_of_a_tenant"}, _audit_page, _list_audit(LARGE), reads=200),
    Act("page audit of all", {"audit_log_pkey"}, _audit_page, _list_audit(None), reads=200),
    Act("cancel", PAGE, _one("queued"), _calling("cancel_job")),
    Act("cancel running", PAGE, _one("running"), _calling("cancel_job")),
    Act(
        "cancel by filter",
        PAGE,
        _nothing,
        _calling("cancel_jobs", filter={"state": "queued"}, limit=10),
    ),
    Act("edit", PAGE, _one("queued"), _calling("edit_job", changes={"priority": 1})),
    Act("retry", DEAD, _one("dead"), _calling("retry_job")),
    Act("retry finished", PAGE | READY, _one("succeeded"), _calling("retry_job")),
    Act("retry by filter", DEAD, _nothing, _calling("retry_jobs", filter={}, limit=10)),
    # Reads up to 10,000 jobs of each of five groups.
    Act(
        "list failures",
        {"jobs_dead_alike", "attempts_pkey"},
        _nothing,
        _calling("list_failures"),
        reads=60_000,
    ),
    # These read at most 100,000 and 10,000 jobs, however large the backlog is.
    Act("list queues", PAGE | READY, _nothing, _calling("list_queues"), reads=250_000),
    Act("step a cancel", PAGE, _started("cancel"), _advance, reads=30_000),
    Act("step a discard", PAGE | {"jobs_dead"}, _started("discard"), _advance, reads=30_000),
]


@dataclass(frozen=True, slots=True)
class Observed:
    """The plans of an action's statements, and how many rows they read."""

    act: Act
    plans: list[Plan]
    reads: int

    def faults(self) -> list[str]:
        if not self.plans:
            return ["no plan was seen"]
        return [
            f"{fault}:\n{plan}"
            for plan in self.plans
            if plan.function
            for step in plan.walk()
            if (fault := _fault(step, self.act.indexes))
        ]


def _observe(conn: Connection, act: Act, statistics: str) -> Observed:
    """Observe with the plan for the current values, then with the generic plan."""
    recorder, reads = Recorder(conn, LONG), 0
    for mode in ("force_custom_plan", "force_generic_plan"):
        try:
            reads = max(reads, _reads(conn, act, mode, recorder))
        except BaseException as error:
            error.add_note(f"{act.name}, {statistics}, {mode}")
            raise
    return Observed(act, recorder.plans, reads)


def _reads(conn: Connection, act: Act, mode: str, recorder: Recorder) -> int:
    with conn.transaction(force_rollback=True):
        conn.execute(f"set local plan_cache_mode = {mode}".encode())
        found = act.find(conn)
        before = rows_read(conn)
        with recorder.recording():
            act.do(conn, found)
        return rows_read(conn) - before


@pytest.mark.parametrize("history", HISTORIES, ids=" and ".join)
def test_every_statement_takes_its_index_and_no_act_reads_the_backlog(
    conn: Connection, history: dict[str, Change]
) -> None:
    definition(conn, "planned")
    faults: list[str] = []
    for statistics, change in history.items():
        change(conn)
        for act in ACTS:
            seen = _observe(conn, act, statistics)
            found = seen.faults()
            # An update or delete leaves dead rows and index entries, which a later action would
            # count.
            if "now" not in statistics and seen.reads >= act.reads:
                found.append(f"reads {seen.reads} rows, and may read {act.reads}")
            faults += [f"{act.name}, {statistics}: {fault}" for fault in found]
    assert not faults, "\n\n".join(faults)


@pytest.mark.parametrize(
    ("name", "index"),
    [("claim", "jobs_ready"), ("reap", "jobs_leased"), ("list", "finished_jobs_pkey")],
)
def test_a_missing_index_shows_in_the_plans(conn: Connection, name: str, index: str) -> None:
    definition(conn, "planned")
    fill(conn, 100)
    if index.endswith("_pkey"):
        table = index.removesuffix("_pkey")
        conn.execute(f"alter table jobforge.{table} drop constraint {index}".encode())
    else:
        conn.execute(f"drop index jobforge.{index}".encode())
    [act] = [act for act in ACTS if act.name == name]
    assert _observe(conn, act, "never analysed").faults() != []


def _fault(step: Step, indexes: set[str]) -> str | None:
    if step.kind in SORTS and _is_long(_sorted_by(step)):
        return "sorts what it should read in order"
    if not _is_long(step):
        return None
    if step.kind not in SCANS:
        return f"reads {step.relation} by {step.kind}"
    if not step.is_bound:
        return f"walks all of {step.index}"
    return None if step.index in indexes else f"reads {step.relation} by {step.index}"


def _sorted_by(step: Step) -> Step:
    """Return the input of a sort, unless the sort ends early or only joins rows found before."""
    while len(step.below) == 1 and step.kind != "LIMIT":
        [step] = step.below
    return step


def _is_long(step: Step) -> bool:
    return step.relation in LONG and step.kind != "TIDSCAN"
