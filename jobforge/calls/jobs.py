"""Calls on a tenant's jobs, for applications."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import repeat
from uuid import UUID

from jobforge.calls.call import Call, JsonArgument, build_call, list_or_none
from jobforge.calls.json_arguments import encode_jobs, refuse_faulty
from jobforge.calls.results import (
    ENQUEUED_JOBS,
    STATUSES,
    Result,
    Rows,
    enqueued_from_json,
    json_columns,
    many,
    read_document,
    value,
)
from jobforge.errors import Invalid, Json
from jobforge.types.job_history import (
    Explanation,
    JobEvent,
    JobHistory,
    StoredStep,
)
from jobforge.types.jobs import (
    Enqueued,
    EnqueueStatus,
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


def enqueue_job(job: JobRequest, *, tenant_id: UUID | None = None) -> Call[Enqueued]:
    """Enqueue a job."""
    return Call(
        "enqueue_job",
        {
            "definition": job.definition,
            "payload": JsonArgument.from_value(job.payload or {}, "payload"),
            "options": JsonArgument.from_value(job.options(), "options"),
            "tenant_id": tenant_id,
        },
        _ENQUEUED_JOB,
        statement="select job_id, status from jobforge.enqueue_job(%s, %s::jsonb, %s::jsonb, %s)",
        is_frequent=True,
    )


def enqueue_jobs(
    jobs: Sequence[JobRequest], *, tenant_id: UUID | None = None
) -> Call[list[Enqueued]]:
    """Enqueue all jobs or none. Results are in the order of the jobs."""
    return Call("enqueue_jobs", {"jobs": encode_jobs(jobs), "tenant_id": tenant_id}, ENQUEUED_JOBS)


def enqueue_payloads(
    jobs: UniformJobs, *, tenant_id: UUID | None = None
) -> Call[Iterable[Enqueued]]:
    """Enqueue jobs that differ only in their payloads, all or none.

    Invalid has the field and the index of the job.
    """
    try:
        payloads = encode([payload or {} for payload in jobs.payloads], "payloads")
        options = encode(jobs.template.options(), "options")
    except Invalid:
        refuse_faulty(jobs)
        raise
    return Call(
        "enqueue_payloads",
        {
            "definition": jobs.template.definition,
            "payloads": payloads,
            "options": options,
            "tenant_id": tenant_id,
        },
        Result("", partial(_created_jobs, len(jobs.payloads))),
        statement="select jobforge.enqueue_payloads(%s, %s::jsonb, %s::jsonb, %s)",
        is_frequent=True,
    )


def cancel_job(
    job_id: UUID, *, reason: str | None = None, tenant_id: UUID | None = None
) -> Call[State]:
    """Cancel a job. Returns `canceled`, or `canceling` if the worker must stop the job first."""
    return build_call(
        "cancel_job", value(State, "state"), job_id=job_id, reason=reason, tenant_id=tenant_id
    )


def erase_job(job_id: UUID, *, tenant_id: UUID | None = None) -> Call[list[str]]:
    """Erase the contents of a finished job. Returns folders of artifacts to delete.

    Raises Conflict for a job that has not finished. Over HTTP, the server deletes the folders.
    """
    return build_call("erase_job", _ERASED_FOLDERS, job_id=job_id, tenant_id=tenant_id)


def cancel_jobs(
    which: JobFilter,
    *,
    reason: str | None = None,
    limit: int = 1000,
    dry_run: bool = False,
    tenant_id: UUID | None = None,
) -> Call[int]:
    """Return the number of jobs canceled; repeat the call until it is 0."""
    return build_call(
        "cancel_jobs",
        value(int),
        filter=which,
        reason=reason,
        limit=limit,
        dry_run=dry_run,
        tenant_id=tenant_id,
    )


def reschedule_job(
    job_id: UUID, run_at: datetime | None, *, tenant_id: UUID | None = None
) -> Call[State]:
    """Change when a waiting job runs; None means as soon as possible."""
    if run_at is not None and run_at.tzinfo is None:
        raise Invalid("run_at must have a time zone", field="run_at")
    return build_call(
        "reschedule_job", value(State, "state"), job_id=job_id, run_at=run_at, tenant_id=tenant_id
    )


def edit_job(
    job_id: UUID, changes: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[State]:
    """Change payload, priority, queue or run_at of a job."""
    return build_call(
        "edit_job", value(State, "state"), job_id=job_id, changes=changes, tenant_id=tenant_id
    )


def retry_job(
    job_id: UUID,
    *,
    payload: dict[str, Json] | None = None,
    attempts: int | None = None,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Return the ID of the job that will run: the dead job itself, or a new one with `payload`."""
    return build_call(
        "retry_job",
        value(UUID, "id"),
        job_id=job_id,
        payload=None if payload is None else JsonArgument.from_value(payload, "payload"),
        attempts=attempts,
        tenant_id=tenant_id,
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
    """Retry dead jobs. Returns their number. Repeat the call until it is 0."""
    return build_call(
        "retry_jobs",
        value(int),
        filter=which,
        rate=rate,
        attempts=attempts,
        limit=limit,
        dry_run=dry_run,
        tenant_id=tenant_id,
    )


def get_job(job_id: UUID, *, tenant_id: UUID | None = None) -> Call[JobHistory]:
    """Return a job with its attempts, events and relatives. Raises NotFound."""
    return build_call("get_job", _HISTORY, job_id=job_id, tenant_id=tenant_id)


def list_jobs(
    which: JobFilter = EVERY_JOB,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
    order: JobOrder = "newest",
) -> Call[list[JobListing]]:
    """List jobs, newest or oldest first; `before` is the last ID of the previous page."""
    return build_call(
        "list_jobs",
        many(JobListing),
        filter=which,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
        order=order,
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
    return build_call(
        "list_notes",
        many(JobEvent),
        job_id=job_id,
        after=after,
        kinds=list_or_none(kinds),
        limit=limit,
        tenant_id=tenant_id,
    )


def summarize(*, window_s: float = 86400, tenant_id: UUID | None = None) -> Call[list[SummaryLine]]:
    """Return the number of jobs per queue and state. Of finished jobs, it counts only those that
    finished in the last `window_s` seconds.
    """
    return build_call("summarize", many(SummaryLine), window_s=window_s, tenant_id=tenant_id)


def list_steps(job_id: UUID, *, tenant_id: UUID | None = None) -> Call[list[StoredStep]]:
    """List a job's completed steps, oldest first, then what the job waits for."""
    return build_call("list_steps", many(StoredStep), job_id=job_id, tenant_id=tenant_id)


def explain_job(job_id: UUID, *, tenant_id: UUID | None = None) -> Call[list[Explanation]]:
    """List why a job does not run, the decisive reason first."""
    return build_call("explain_job", many(Explanation), job_id=job_id, tenant_id=tenant_id)


def _created_jobs(jobs: int, rows: Rows) -> Iterable[Enqueued]:
    first: UUID = rows[0][0]  # the other IDs follow it consecutively
    ids = [first] if jobs == 1 else [UUID(int=first.int + n) for n in range(jobs)]
    # Lazy: a list with thousands of tuples would trigger garbage collections.
    return map(Enqueued, ids, repeat(EnqueueStatus.CREATED))


def _history(document: Json) -> JobHistory:
    # Relatives and workflow are members of the job; older servers do not send them.
    around = {"parents": [], "children": [], **document["job"]}
    return read_document(JobHistory, {**around, **document})


_HISTORY = json_columns(_history, "job", "attempts", "events")

_ERASED_FOLDERS: Result[list[str]] = Result(
    "",
    lambda rows: rows[0][0],
    lambda _: [],  # the server has deleted the folders
)

_ENQUEUED_JOB: Result[Enqueued] = Result(
    "job_id, status",
    lambda rows: Enqueued(rows[0][0], STATUSES[rows[0][1]]),
    enqueued_from_json,
)
