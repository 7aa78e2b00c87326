"""Calls of workers, across tenants: claim, heartbeat, complete."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import LiteralString
from uuid import UUID

import orjson

from jobforge.calls.binary_arrays import pack_documents, pack_tokens
from jobforge.calls.call import Call, JsonArgument, build_call, list_or_none
from jobforge.calls.json_arguments import encode_notes, encode_report, encode_reports, encode_tokens
from jobforge.calls.results import ENQUEUED_JOBS, NOTHING, Result, Rows, many, tuples, value
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
    State,
    Step,
    Token,
    WorkerCommand,
    encode_timestamp,
)

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
_SUCCEED_JOBS = """
    select job_id, lease
      from jobforge.succeed_jobs(%s, %s::uuid[], %s::uuid[], %s::bigint[], %s::jsonb[])"""


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
    lease_s: float = 30,
) -> Call[None]:
    return build_call(
        "register_worker",
        NOTHING,
        worker_id=worker_id,
        queues=list(queues),
        slots=slots,
        definitions=list_or_none(definitions),
        host=host,
        pid=pid,
        build=build,
        isolation=isolation,
        lease_s=lease_s,
    )


def unregister_worker(worker_id: UUID) -> Call[None]:
    return build_call("unregister_worker", NOTHING, worker_id=worker_id)


def put_definition(
    key: str, version: int, settings: Mapping[str, Json] | None = None
) -> Call[None]:
    """Create or update a version of a definition."""
    return build_call("put_definition", NOTHING, key=key, version=version, settings=settings or {})


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
        "claim_jobs",
        {
            "loader": worker_id,  # the first parameter of the statement, for load_steps
            "worker_id": worker_id,
            "queues": list(limits),
            "limits": list(limits.values()),
            "definitions": list_or_none(definitions),
            "tenants": list_or_none(tenants),
            "lease_s": lease_s,
            "registered": registered,
        },
        _CLAIMED_JOBS,
        statement=_CLAIM_JOBS,
        is_frequent=True,
    )


def claim_readable_jobs(claim: Call[list[ClaimedJob]]) -> Call[list[ClaimedJob]]:
    """Return the same claim, except that it fails jobs with unreadable payloads as dead."""
    return claim._replace(
        function="claim_readable_jobs", statement=_CLAIM_READABLE, is_frequent=False
    )


def is_unreadable(error: JobForgeError) -> bool:
    """Return whether a claim failed because Postgres could not write a row as text."""
    return error.detail.get("sqlstate") in _TOO_LONG_FOR_POSTGRES


def heartbeat_job(worker_id: UUID, token: Token, *, lease_s: float = LEASE_S) -> Call[BeatStatus]:
    """Extend a lease. `held`: not extended, call again soon. Raises LeaseLost if it is lost."""
    return build_call(
        "heartbeat_job",
        value(BeatStatus),
        tenant_id=token.tenant_id,
        job_id=token.job_id,
        worker_id=worker_id,
        lease=token.lease,
        lease_s=lease_s,
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
    return build_call(
        "heartbeat_jobs",
        _HEARTBEAT,
        worker_id=worker_id,
        jobs=encode_tokens(tokens),
        lease_s=lease_s,
        memory_bytes=memory_bytes,
        clock=clock,
    )


def complete_job(worker_id: UUID, report: OutcomeReport) -> Call[State | None]:
    """Settle one attempt. Raises LeaseLost; a repeated report returns None."""
    return build_call(
        "complete_job",
        value(State),
        tenant_id=report.tenant_id,
        job_id=report.job_id,
        worker_id=worker_id,
        lease=report.lease,
        outcome=encode_report(report),
    )


def complete_jobs(worker_id: UUID, reports: Sequence[OutcomeReport]) -> Call[list[Settled]]:
    """Settle attempts. A report that cannot be stored is settled as a failure that says why.

    Send the outcome of a job with status `busy` again soon, and keep its lease until then.
    """
    return build_call(
        "complete_jobs", many(Settled), worker_id=worker_id, outcomes=encode_reports(reports)
    )


def succeed_jobs(
    worker_id: UUID, tokens: Sequence[tuple[UUID, UUID, int]], results: Sequence[Json] | None = None
) -> Call[list[tuple[UUID, int]]]:
    """Settle plain successes. Returns those not settled, to be sent with complete_jobs."""
    tenants, jobs, leases = pack_tokens(tokens)
    return Call(
        "succeed_jobs",
        {
            "worker_id": worker_id,
            "tenants": tenants,
            "jobs": jobs,
            "leases": leases,
            "results": None if results is None else pack_documents(results),
        },
        _UNSETTLED,
        statement=_SUCCEED_JOBS,
        is_frequent=True,
    )


def release_jobs(worker_id: UUID, tokens: Iterable[Token]) -> Call[list[Settled]]:
    return build_call(
        "release_jobs", many(Settled), worker_id=worker_id, jobs=encode_tokens(tokens)
    )


def note_jobs(worker_id: UUID, notes: Sequence[Note]) -> Call[list[Noted]]:
    """Record notes in order. Values that cannot be sent are replaced by descriptions."""
    return build_call(
        "note_jobs",
        tuples(_noted_jobs, job_id=UUID, lease=int, status=str),
        worker_id=worker_id,
        notes=encode_notes(notes),
    )


def save_steps(worker_id: UUID, steps: Sequence[Step]) -> Call[list[SaveStatus]]:
    """Save steps. Returns one status for each, in order."""
    return build_call(
        "save_steps",
        tuples(
            lambda found: _save_statuses(found, steps),
            job_id=UUID,
            lease=int,
            name=str,
            index=int,
            status=str,
        ),
        worker_id=worker_id,
        steps=JsonArgument.from_value([step.to_json() for step in steps], "steps"),
    )


def load_steps(worker_id: UUID, token: Token) -> Call[list[dict[str, Json]] | None]:
    """Return the steps of earlier attempts, like claim_jobs; None if the lease is not held."""
    return build_call(
        "load_steps",
        value(list),
        worker_id=worker_id,
        tenant_id=token.tenant_id,
        job_id=token.job_id,
        lease=token.lease,
    )


def enqueue_children(
    worker_id: UUID, token: Token, name: str, index: int, jobs: Sequence[Mapping[str, Json]]
) -> Call[list[Enqueued]]:
    """Enqueue child jobs in a step of a running job: once, however often it is called.

    `jobs` are objects as written by JobRequest.to_json.
    """
    call = build_call(
        "enqueue_children",
        ENQUEUED_JOBS,
        worker_id=worker_id,
        job_id=token.job_id,
        lease=token.lease,
        name=name,
        index=index,
        jobs=JsonArgument.from_value(list(jobs), "jobs"),
    )
    return call.under_lease(worker_id, token)


def reap_jobs(*, limit: int = 500) -> Call[list[Reaped]]:
    return build_call("reap_jobs", many(Reaped), limit=limit)


def _noted_jobs(rows: Rows) -> list[Noted]:
    return [Noted(job_id, lease, status == "lost") for job_id, lease, status in rows]


def _save_statuses(rows: Rows, steps: Sequence[Step]) -> list[SaveStatus]:
    # The engine returns rows in the order in which it locked the jobs.
    told = {row[:4]: SaveStatus(row[4]) for row in rows}
    return [told[step.job_id, step.lease, step.name, step.index] for step in steps]


def _heartbeat_from_rows(rows: Rows) -> Heartbeat:
    command = WorkerCommand.UNKNOWN
    jobs = []
    for job_id, lease, status in rows:
        if job_id is None:  # the row with the command to the worker
            command = WorkerCommand(status)
        else:
            jobs.append(Beat(job_id, lease, BeatStatus(status)))
    return Heartbeat(command, jobs)


def _heartbeat_from_json(response: Json) -> Heartbeat:
    beats = [
        Beat(UUID(beat["job_id"]), beat["lease"], BeatStatus(beat["status"]))
        for beat in response["items"]
    ]
    return Heartbeat(WorkerCommand(response["command"]), beats)


def _unsettled_from_json(response: Json) -> list[tuple[UUID, int]]:
    items = response["items"]
    return [(UUID(item["job_id"]), item["lease"]) for item in items if item["status"] != "ok"]


def _claimed_from_json(item: Json) -> ClaimedJob:
    return ClaimedJob(
        UUID(item["tenant_id"]),
        UUID(item["job_id"]),
        item["lease"],
        item["definition"],
        item["version"],
        item["queue"],
        item["attempt"],
        item["max_attempts"],
        item["timeout_s"],
        encode_timestamp(datetime.fromisoformat(item["started_at"])),
        item["source"],
        item["correlation_id"],
        item["traceparent"],
        item["idempotency_key"],
        item["tags"],
        _to_text(item["payload"]),
        _to_text(steps) if (steps := item.get("steps")) is not None else None,
        item.get("waited_s", 0.0),
    )


def _to_text(payload: Json) -> str:
    try:
        return orjson.dumps(payload).decode()
    except TypeError:  # it has an integer of more than 64 bits
        return json.dumps(payload)


_HEARTBEAT = Result("job_id, lease, status", _heartbeat_from_rows, _heartbeat_from_json)
_CLAIMED_JOBS: Result[list[ClaimedJob]] = Result(
    "",  # the statement names the columns
    lambda rows: list(map(ClaimedJob._make, rows)),
    lambda response: list(map(_claimed_from_json, response["items"])),
)
_UNSETTLED: Result[list[tuple[UUID, int]]] = Result("job_id, lease", list, _unsettled_from_json)
