"""What tests of jobforge.calls share: two tenants, a worker, a job, and a way to run calls."""

from typing import Any, Protocol, TypeVar
from uuid import UUID, uuid4

from cluster import Connection

from jobforge.calls import Call
from jobforge.types.jobs import ClaimedJob, JobRequest, Outcome, OutcomeReport

T = TypeVar("T")

TENANT_A = UUID("aaaaaaaa-0000-4000-8000-000000000001")
TENANT_B = UUID("bbbbbbbb-0000-4000-8000-000000000002")
WORKER = uuid4()
A_JOB = JobRequest("mail", {"to": "ada"})


class RunCall(Protocol):
    """Run a call on a sync or an async connection."""

    def __call__(self, call: Call[T]) -> T: ...


def report(job: ClaimedJob, outcome: Outcome = Outcome.SUCCEEDED, **more: Any) -> OutcomeReport:
    return OutcomeReport(*job.token, outcome, job.started_at, **more)


def count_jobs(conn: Connection) -> int:
    """Return the number of unfinished jobs of all tenants."""
    row = conn.execute("select count(*) as n from jobforge.jobs").fetchone()
    assert row
    return int(row["n"])
