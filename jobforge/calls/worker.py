"""Calls of workers, across tenants: claim, keep, settle."""

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

# program_limit_exceeded (the text of a row is larger than 1 GB) and out_of_memory.
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

# Jobs come by the thousand, and calling an enum takes as long as all else about one.
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
    """`limits` has how many jobs to take of each queue. With `registered` the worker serves the
    definitions that it passed to register_worker; raises NotFound if it is not registered."""
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
    """The same claim. A job whose payload cannot be sent is ended as dead, and is not returned."""
    return claim._replace(sql=_CLAIM_READABLE, is_frequent=False)


def is_unreadable(error: JobForgeError) -> bool:
    """Whether a claim failed because Postgres could not write one of its rows as text."""
    return error.detail.get("sqlstate") in _TOO_LONG_FOR_POSTGRES


def heartbeat_job(worker_id: UUID, token: Token, *, lease_s: float = LEASE_S) -> Call[BeatStatus]:
    """`held`: not extended, call again soon. Raises LeaseLost where heartbeat_jobs has `lost`."""
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
    """`memory_bytes` is what the worker's process occupies, `clock` the time by its own clock."""
    return Call(
        """
        select job_id, lease, status
          from jobforge.heartbeat_jobs(%s, %s::jsonb, %s::float8, %s::bigint, %s::timestamptz)
        """,
        (worker_id, encode_tokens(tokens), lease_s, memory_bytes, clock),
        _heartbeat,
    )


def complete_job(worker_id: UUID, report: OutcomeReport) -> Call[State | None]:
    """Raises LeaseLost where complete_jobs answers so. A repeated report answers no state."""
    return Call(
        "select jobforge.complete_job(%s, %s, %s, %s::bigint, %s::jsonb)",
        (report.tenant_id, report.job_id, worker_id, report.lease, encode_report(report)),
        _state_if_any,
    )


def complete_jobs(worker_id: UUID, reports: Sequence[OutcomeReport]) -> Call[list[Settled]]:
    """One bad report does not fail the others: it is settled as a failure that says why.

    Send the outcome of a job that is `busy` again soon, and keep its lease until then.
    """
    return Call(
        "select job_id, lease, status, state from jobforge.complete_jobs(%s, %s::jsonb)",
        (worker_id, encode_reports(reports)),
        _settled_jobs,
    )


def succeed_jobs(
    worker_id: UUID, tokens: Sequence[tuple[UUID, UUID, int]], results: Sequence[Json] | None = None
) -> Call[list[tuple[UUID, int]]]:
    """Returns those that were not settled; complete_jobs tells the status of each."""
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
    """Kept in the order given. Data that cannot be sent is put into words."""
    return Call(
        "select job_id, lease, status from jobforge.note_jobs(%s, %s::jsonb)",
        (worker_id, encode_notes(notes)),
        _noted_jobs,
    )


def save_steps(worker_id: UUID, steps: Sequence[Step]) -> Call[list[SaveStatus]]:
    """One answer for each, in their order."""
    return Call(
        "select job_id, lease, name, index, status from jobforge.save_steps(%s, %s::jsonb)",
        (worker_id, encode([step.to_json() for step in steps], "steps")),
        lambda found: _save_statuses(found, steps),
    )


def load_steps(worker_id: UUID, token: Token) -> Call[list[dict[str, Json]] | None]:
    """What claim_jobs told already, in steps_json; None when the lease is not held."""
    return Call(
        "select jobforge.load_steps(%s, %s, %s, %s::bigint)",
        (worker_id, token.tenant_id, token.job_id, token.lease),
        rows.value,
    )


def enqueue_children(
    worker_id: UUID, token: Token, name: str, index: int, jobs: Sequence[Mapping[str, Json]]
) -> Call[list[Enqueued]]:
    """Jobs that a running job makes as a step of its own: once, however often it is called.

    They are documents, as JobRequest.to_json writes them.
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
    """Ids and leases."""
    return list(rows)


def _noted_jobs(rows: Rows) -> list[Noted]:
    return [Noted(job_id, lease, status == "lost") for job_id, lease, status in rows]


def _save_statuses(rows: Rows, steps: Sequence[Step]) -> list[SaveStatus]:
    # The engine answers in the order in which it locked the jobs.
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
        if job_id is None:  # the row that speaks of the worker itself
            command = WorkerCommand(status)
        else:
            jobs.append(Beat(job_id, lease, BeatStatus(status)))
    return Heartbeat(command, jobs)
