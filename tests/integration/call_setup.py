"""What the tests of the seam share: two tenants, a worker, a job, a way to run calls."""

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
    """Runs a call on a sync or an async connection."""

    def __call__(self, call: Call[T]) -> T: ...


def report(job: ClaimedJob, outcome: Outcome = Outcome.SUCCEEDED, **more: Any) -> OutcomeReport:
    return OutcomeReport(*job.token, outcome, job.started_at, **more)


def count_jobs(conn: Connection) -> int:
    """The jobs of all tenants that have not ended."""
    row = conn.execute("select count(*) as n from jobforge.jobs").fetchone()
    assert row
    return int(row["n"])
