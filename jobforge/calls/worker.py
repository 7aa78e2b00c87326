"""Calls of workers, across tenants: claim, heartbeat, complete."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import LiteralString, TypeVar
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.binary_arrays import pack_documents, pack_tokens
from jobforge.calls.call import Call
from jobforge.calls.json_arguments import (
    encode_notes,
    encode_report,
    encode_reports,
    encode_tokens,
)
from jobforge.calls.rows import Rows
from jobforge.errors import JobForgeError, Json
from jobforge.types.jobs import (
    Beat,
    BeatStatus,
    ClaimedJob,
    Enqueued,
    Heartbeat,
    Note,
    Noted,
    OutcomeReport,
    Reaped,
    SaveStatus,
    Settled,
    SettleStatus,
    State,
    Step,
    Token,
    WorkerCommand,
)
from jobforge.types.jsonb import encode

LEASE_S = 30.0

# program_limit_exceeded (a row is larger than 1 GB as text) and out_of_memory.
_TOO_LONG_FOR_POSTGRES = {"54000", "53200"}

_CLAIM = """
    select tenant_id, job_id, lease, definition, version, queue, attempt, max_attempts,
           timeout_s, timestamptz_send(started_at) as started, source, correlation_id,
           traceparent, idempotency_key, tags, payload::text as payload_json,
           case when flags & 4 = 4
                then jobforge.load_steps(%s, tenant_id, job_id, lease)::text end as steps_json,
           date_part('epoch', started_at - queued_at) as waited_s
      from jobforge."""
_ARGUMENTS = "(%s, %s, %s::integer[], %s, %s::uuid[], %s::float8, %s::boolean)"
_CLAIM_JOBS: LiteralString = _CLAIM + "claim_jobs" + _ARGUMENTS
_CLAIM_READABLE: LiteralString = _CLAIM + "claim_readable_jobs" + _ARGUMENTS

T = TypeVar("T")

# Dict lookups, because calling an enum doubles the time to decode a row, and rows number in the
# thousands.
_STATES = {state.value: state for state in State}
_SETTLE_STATUSES = {status.value: status for status in SettleStatus}


def register_worker(
    worker_id: UUID,
    queues: Sequence[str],
    *,
    slots: int,
    definitions: Sequence[str] | None = None,
    host: str | None = None,
    pid: int | None = None,
    build: str | None = None,
    isolation: str | None = None,
) -> Call[None]:
    return Call(
        "select jobforge.register_worker(%s, %s, %s::integer, %s, %s, %s::integer, %s, %s)",
        (worker_id, list(queues), slots, _list_or_none(definitions), host, pid, build, isolation),
        rows.nothing,
    )


def unregister_worker(worker_id: UUID) -> Call[None]:
    return Call("select jobforge.unregister_worker(%s)", (worker_id,), rows.nothing)


def put_definition(
    key: str, version: int, settings: Mapping[str, Json] | None = None
) -> Call[None]:
    """Create or update a version of a definition."""
    return Call(
        "select jobforge.put_definition(%s, %s::integer, %s::jsonb)",
        (key, version, encode(dict(settings or {}), "settings")),
        rows.nothing,
    )


def claim_jobs(
    worker_id: UUID,
    limits: Mapping[str, int],
    *,
    definitions: Sequence[str] | None = None,
    registered: bool = False,
    tenants: Sequence[UUID] | None = None,
    lease_s: float = LEASE_S,
) -> Call[list[ClaimedJob]]:
    """Claim up to `limits[queue]` jobs of each queue. With `registered`, the worker serves the
    definitions that it passed to register_worker; raises NotFound if it is not registered.
    """
    return Call(
        _CLAIM_JOBS,
        (
            *(worker_id, worker_id, list(limits), list(limits.values())),
            *(_list_or_none(definitions), _list_or_none(tenants), lease_s, registered),
        ),
        _claimed_jobs,
        is_frequent=True,
    )


def claim_readable_jobs(claim: Call[list[ClaimedJob]]) -> Call[list[ClaimedJob]]:
    """Return the same claim, except that it fails jobs with unreadable payloads as dead."""
    return claim._replace(sql=_CLAIM_READABLE, is_frequent=False)


def is_unreadable(error: JobForgeError) -> bool:
    """Return whether a claim failed because Postgres could not write a row as text."""
    return error.detail.get("sqlstate") in _TOO_LONG_FOR_POSTGRES


def heartbeat_job(worker_id: UUID, token: Token, *, lease_s: float = LEASE_S) -> Call[BeatStatus]:
    """Extend a lease. `held`: not extended, call again soon. Raises LeaseLost if it is lost."""
    return Call(
        "select jobforge.heartbeat_job(%s, %s, %s, %s::bigint, %s::float8)",
        (token.tenant_id, token.job_id, worker_id, token.lease, lease_s),
        _beat,
    )


def heartbeat_jobs(
    worker_id: UUID,
    tokens: Iterable[Token],
    *,
    lease_s: float = LEASE_S,
    memory_bytes: int | None = None,
    clock: datetime | None = None,
) -> Call[Heartbeat]:
    """Extend leases. `memory_bytes`: the worker process's memory; `clock`: the worker's time."""
    return Call(
        """
        select job_id, lease, status
          from jobforge.heartbeat_jobs(%s, %s::jsonb, %s::float8, %s::bigint, %s::timestamptz)
        """,
        (worker_id, encode_tokens(tokens), lease_s, memory_bytes, clock),
        _heartbeat,
    )


def complete_job(worker_id: UUID, report: OutcomeReport) -> Call[State | None]:
    """Settle one attempt. Raises LeaseLost; a repeated report returns None."""
    return Call(
        "select jobforge.complete_job(%s, %s, %s, %s::bigint, %s::jsonb)",
        (report.tenant_id, report.job_id, worker_id, report.lease, encode_report(report)),
        _state_if_any,
    )


def complete_jobs(worker_id: UUID, reports: Sequence[OutcomeReport]) -> Call[list[Settled]]:
    """Settle attempts. A report that cannot be stored is settled as a failure that says why.

    Send the outcome of a job with status `busy` again soon, and keep its lease until then.
    """
    return Call(
        "select job_id, lease, status, state from jobforge.complete_jobs(%s, %s::jsonb)",
        (worker_id, encode_reports(reports)),
        _settled_jobs,
    )


def succeed_jobs(
    worker_id: UUID, tokens: Sequence[tuple[UUID, UUID, int]], results: Sequence[Json] | None = None
) -> Call[list[tuple[UUID, int]]]:
    """Settle plain successes; return those not settled, to be sent with complete_jobs."""
    return Call(
        """
        select job_id, lease
          from jobforge.succeed_jobs(%s, %s::uuid[], %s::uuid[], %s::bigint[], %s::jsonb[])
        """,
        (worker_id, *pack_tokens(tokens), None if results is None else pack_documents(results)),
        _unsettled_leases,
        is_frequent=True,
    )


def release_jobs(worker_id: UUID, tokens: Iterable[Token]) -> Call[list[Settled]]:
    return Call(
        "select job_id, lease, status, state from jobforge.release_jobs(%s, %s::jsonb)",
        (worker_id, encode_tokens(tokens)),
        _settled_jobs,
    )


def note_jobs(worker_id: UUID, notes: Sequence[Note]) -> Call[list[Noted]]:
    """Record notes in order. Values that cannot be sent are replaced by descriptions."""
    return Call(
        "select job_id, lease, status from jobforge.note_jobs(%s, %s::jsonb)",
        (worker_id, encode_notes(notes)),
        _noted_jobs,
    )


def save_steps(worker_id: UUID, steps: Sequence[Step]) -> Call[list[SaveStatus]]:
    """Save steps; return one status for each, in order."""
    return Call(
        "select job_id, lease, name, index, status from jobforge.save_steps(%s, %s::jsonb)",
        (worker_id, encode([step.to_json() for step in steps], "steps")),
        lambda found: _save_statuses(found, steps),
    )


def load_steps(worker_id: UUID, token: Token) -> Call[list[dict[str, Json]] | None]:
    """Return the steps of earlier attempts, like claim_jobs; None if the lease is not held."""
    return Call(
        "select jobforge.load_steps(%s, %s, %s, %s::bigint)",
        (worker_id, token.tenant_id, token.job_id, token.lease),
        rows.value,
    )


def enqueue_children(
    worker_id: UUID, token: Token, name: str, index: int, jobs: Sequence[Mapping[str, Json]]
) -> Call[list[Enqueued]]:
    """Enqueue child jobs in a step of a running job: once, however often it is called.

    `jobs` are objects as written by JobRequest.to_json.
    """
    call = Call(
        """
        select index, job_id, status
          from jobforge.enqueue_children(%s, %s, %s::bigint, %s, %s::integer, %s::jsonb)
        """,
        (worker_id, token.job_id, token.lease, name, index, encode(list(jobs), "jobs")),
        rows.enqueued_jobs,
    )
    return call.under_lease(worker_id, token)


def reap_jobs(*, limit: int = 500) -> Call[list[Reaped]]:
    return Call(
        "select tenant_id, job_id, lease, state from jobforge.reap_jobs(%s::integer)",
        (limit,),
        _reaped_jobs,
    )


def _list_or_none(names: Sequence[T] | None) -> list[T] | None:
    return None if names is None else list(names)


def _state_if_any(rows: Rows) -> State | None:
    return None if rows[0][0] is None else State(rows[0][0])


def _claimed_jobs(rows: Rows) -> list[ClaimedJob]:
    return list(map(ClaimedJob._make, rows))


def _settled_jobs(rows: Rows) -> list[Settled]:
    return [
        Settled(job_id, lease, _SETTLE_STATUSES[status], _STATES[state] if state else None)
        for job_id, lease, status, state in rows
    ]


def _unsettled_leases(rows: Rows) -> list[tuple[UUID, int]]:
    """Return job IDs and leases."""
    return list(rows)


def _noted_jobs(rows: Rows) -> list[Noted]:
    return [Noted(job_id, lease, status == "lost") for job_id, lease, status in rows]


def _save_statuses(rows: Rows, steps: Sequence[Step]) -> list[SaveStatus]:
    # The engine returns rows in the order in which it locked the jobs.
    told = {row[:4]: SaveStatus(row[4]) for row in rows}
    return [told[step.job_id, step.lease, step.name, step.index] for step in steps]


def _reaped_jobs(rows: Rows) -> list[Reaped]:
    return [
        Reaped(tenant_id, job_id, lease, State(state)) for tenant_id, job_id, lease, state in rows
    ]


def _beat(rows: Rows) -> BeatStatus:
    return BeatStatus(rows[0][0])


def _heartbeat(rows: Rows) -> Heartbeat:
    command = WorkerCommand.UNKNOWN
    jobs = []
    for job_id, lease, status in rows:
        if job_id is None:  # the row with the command to the worker
            command = WorkerCommand(status)
        else:
            jobs.append(Beat(job_id, lease, BeatStatus(status)))
    return Heartbeat(command, jobs)
