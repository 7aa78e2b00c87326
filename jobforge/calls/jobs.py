"""Calls on a tenant's jobs, for applications."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import repeat
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.json_arguments import encode_alike, encode_jobs
from jobforge.calls.rows import STATUSES, Rows, make_reader
from jobforge.errors import Invalid, Json
from jobforge.types.job_history import (
    Attempt,
    Explanation,
    JobEvent,
    JobHistory,
    Membership,
    Relative,
    StoredStep,
)
from jobforge.types.jobs import (
    Enqueued,
    EnqueueStatus,
    Job,
    JobFilter,
    JobListing,
    JobOrder,
    JobRequest,
    State,
    SummaryLine,
    UniformJobs,
)
from jobforge.types.jsonb import encode

EVERY_JOB = JobFilter()

_read_job = make_reader(Job)
_read_attempt = make_reader(Attempt)
_read_event = make_reader(JobEvent)
_read_relative = make_reader(Relative)
_read_membership = make_reader(Membership)


def enqueue_job(job: JobRequest, *, tenant_id: UUID | None = None) -> Call[Enqueued]:
    """Enqueue a job."""
    payload = encode(job.payload or {}, "payload")
    return Call(
        "select job_id, status from jobforge.enqueue_job(%s, %s::jsonb, %s::jsonb, %s)",
        (job.definition, payload, encode(job.options(), "options"), tenant_id),
        _enqueued_job,
        is_frequent=True,
    )


def enqueue_jobs(
    jobs: Sequence[JobRequest], *, tenant_id: UUID | None = None
) -> Call[list[Enqueued]]:
    """Enqueue all jobs or none. Results are in the order of the jobs."""
    return Call(
        "select index, job_id, status from jobforge.enqueue_jobs(%s::jsonb, %s)",
        (encode_jobs(jobs), tenant_id),
        rows.enqueued_jobs,
    )


def enqueue_payloads(
    jobs: UniformJobs, *, tenant_id: UUID | None = None
) -> Call[Iterable[Enqueued]]:
    """Enqueue jobs that differ only in their payloads, all or none."""
    return Call(
        "select jobforge.enqueue_payloads(%s, %s::jsonb, %s::jsonb, %s)",
        (*encode_alike(jobs), tenant_id),
        partial(_created_jobs, len(jobs.payloads)),
        is_frequent=True,
    )


def cancel_job(
    job_id: UUID, *, reason: str | None = None, tenant_id: UUID | None = None
) -> Call[State]:
    """Return `canceled`, or `canceling` if the job's worker must stop it first."""
    return Call("select jobforge.cancel_job(%s, %s, %s)", (job_id, reason, tenant_id), _state)


def erase_job(job_id: UUID, *, tenant_id: UUID | None = None) -> Call[list[str]]:
    """Erase the contents of a finished job; return folders of artifacts to delete.

    Raises Conflict for a job that has not finished. Over HTTP, the server deletes the folders.
    """
    return Call("select jobforge.erase_job(%s, %s)", (job_id, tenant_id), rows.value)


def cancel_jobs(
    which: JobFilter,
    *,
    reason: str | None = None,
    limit: int = 1000,
    dry_run: bool = False,
    tenant_id: UUID | None = None,
) -> Call[int]:
    """Return the number of jobs canceled; repeat the call until it is 0."""
    return Call(
        "select jobforge.cancel_jobs(%s::jsonb, %s, %s::integer, %s, %s)",
        (encode(which.to_json(), "filter"), reason, limit, dry_run, tenant_id),
        rows.value,
    )


def reschedule_job(
    job_id: UUID, run_at: datetime | None, *, tenant_id: UUID | None = None
) -> Call[State]:
    """Change when a waiting job runs; None means as soon as possible."""
    if run_at is not None and run_at.tzinfo is None:
        raise Invalid("run_at needs a time zone", field="run_at")
    return Call("select jobforge.reschedule_job(%s, %s, %s)", (job_id, run_at, tenant_id), _state)


def edit_job(
    job_id: UUID, changes: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[State]:
    """Change payload, priority, queue or run_at of a job."""
    return Call(
        "select jobforge.edit_job(%s, %s::jsonb, %s)",
        (job_id, encode(dict(changes), "changes"), tenant_id),
        _state,
    )


def retry_job(
    job_id: UUID,
    *,
    payload: dict[str, Json] | None = None,
    attempts: int | None = None,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Return the ID of the job that will run: the dead job itself, or a new one with `payload`."""
    return Call(
        "select jobforge.retry_job(%s, %s::jsonb, %s::integer, %s)",
        (job_id, None if payload is None else encode(payload, "payload"), attempts, tenant_id),
        rows.value,
    )


def retry_jobs(
    which: JobFilter = EVERY_JOB,
    *,
    rate: float | None = None,
    attempts: int | None = None,
    limit: int = 1000,
    dry_run: bool = False,
    tenant_id: UUID | None = None,
) -> Call[int]:
    """Retry dead jobs; return their number. Repeat the call until it is 0."""
    return Call(
        "select jobforge.retry_jobs(%s::jsonb, %s::float8, %s::integer, %s::integer, %s, %s)",
        (encode(which.to_json(), "filter"), rate, attempts, limit, dry_run, tenant_id),
        rows.value,
    )


def get_job(job_id: UUID, *, tenant_id: UUID | None = None) -> Call[JobHistory]:
    """Return a job with its attempts, events and relatives. Raises NotFound."""
    return Call(
        "select job, attempts, events from jobforge.get_job(%s, %s)",
        (job_id, tenant_id),
        _history,
    )


def list_jobs(
    which: JobFilter = EVERY_JOB,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
    order: JobOrder = "newest",
) -> Call[list[JobListing]]:
    """List jobs, newest or oldest first; `before` is the last ID of the previous page."""
    return Call(
        """
        select id, state, definition, version, queue, priority, attempt, max_attempts, created_at,
               run_at, queued_at, started_at, finished_at, worker_id, source, source_ref,
               correlation_id, idempotency_key, tags, fingerprint, error, retry_of, created_by
          from jobforge.list_jobs(%s::jsonb, %s::integer, %s, %s, %s)
        """,
        (encode(which.to_json(), "filter"), limit, before, tenant_id, order),
        _listings,
    )


def list_notes(
    job_id: UUID,
    *,
    after: datetime | None = None,
    kinds: Sequence[str] | None = None,
    limit: int = 200,
    tenant_id: UUID | None = None,
) -> Call[list[JobEvent]]:
    """List notes, oldest first; `after` is the time of the last note of the previous page."""
    return Call(
        "select at, kind, actor, data from jobforge.list_notes(%s, %s, %s, %s::integer, %s)",
        (job_id, after, None if kinds is None else list(kinds), limit, tenant_id),
        _events,
    )


def summarize(*, window_s: float = 86400, tenant_id: UUID | None = None) -> Call[list[SummaryLine]]:
    """Return the number of jobs per queue and state; of finished jobs, the last `window_s`."""
    return Call(
        "select queue, state, jobs, oldest_queued_at from jobforge.summarize(%s::float8, %s)",
        (window_s, tenant_id),
        _summary,
    )


def list_steps(job_id: UUID, *, tenant_id: UUID | None = None) -> Call[list[StoredStep]]:
    """List a job's completed steps, oldest first, then what the job waits for."""
    return Call(
        """
        select kind, name, index, state, result, lease, at, until, match, jobs
          from jobforge.list_steps(%s, %s)
        """,
        (job_id, tenant_id),
        _steps,
    )


def explain_job(job_id: UUID, *, tenant_id: UUID | None = None) -> Call[list[Explanation]]:
    """List why a job does not run, the decisive reason first."""
    return Call(
        "select code, message, remedy, detail from jobforge.explain_job(%s, %s)",
        (job_id, tenant_id),
        _explanations,
    )


def _state(rows: Rows) -> State:
    return State(rows[0][0])


def _enqueued_job(rows: Rows) -> Enqueued:
    job_id, status = rows[0]
    return Enqueued(job_id, STATUSES[status])


def _created_jobs(jobs: int, rows: Rows) -> Iterable[Enqueued]:
    first: UUID = rows[0][0]  # the other IDs follow it consecutively
    ids = [first] if jobs == 1 else [UUID(int=first.int + n) for n in range(jobs)]
    # Lazy: a list with thousands of tuples would trigger garbage collections.
    return map(Enqueued, ids, repeat(EnqueueStatus.CREATED))


def _steps(rows: Rows) -> list[StoredStep]:
    return [StoredStep(*row) for row in rows]


def _listings(rows: Rows) -> list[JobListing]:
    return [JobListing(job_id, State(state), *others) for job_id, state, *others in rows]


def _events(rows: Rows) -> list[JobEvent]:
    return [JobEvent(*row) for row in rows]


def _summary(rows: Rows) -> list[SummaryLine]:
    return [SummaryLine(queue, State(state), *others) for queue, state, *others in rows]


def _explanations(rows: Rows) -> list[Explanation]:
    return [Explanation(*row) for row in rows]


def _history(rows: Rows) -> JobHistory:
    job, attempts, events = rows[0]
    workflow = job.get("workflow")
    return JobHistory(
        _read_job(job),
        list(map(_read_attempt, attempts)),
        list(map(_read_event, events)),
        list(map(_read_relative, job.get("parents", ()))),
        list(map(_read_relative, job.get("children", ()))),
        workflow and _read_membership(workflow),
    )
