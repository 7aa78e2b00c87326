"""The words between the worker and whatever runs its jobs.

The worker claims, keeps leases and settles. A Runner turns one claimed job into one Report, and
asks its Host for what a job may have of the worker. Timeouts and leases are the worker's: it calls
`Run.stop`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from jobforge.errors import Json
from jobforge.redact import RedactionScope
from jobforge.sdk.definition import Definition
from jobforge.sdk.verdict import StopReason, Verdict
from jobforge.types.jobs import ClaimedJob, Enqueued, JobRequest, Outcome

__all__ = ["RELEASED", "SUCCEEDED", "JobServices", "OnEnd", "Report", "Run", "Runner", "StopReason"]


class Report(NamedTuple):
    """How a run ended. Without a verdict there is nothing to report: the lease is gone."""

    verdict: Verdict | None
    exit_code: int | None = None
    pid: int | None = None
    peak_memory_bytes: int | None = None
    cpu_ms: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None
    large_result: bytes | None = None  # as JSON, instead of the verdict's
    artifact_ref: str | None = None


# Called once for every job that runs, in the loop's thread.
OnEnd = Callable[[ClaimedJob, Report], None]

SUCCEEDED = Report(Verdict(Outcome.SUCCEEDED))
RELEASED = Report(Verdict(Outcome.RELEASED))


class Run(Protocol):
    """A job that is running."""

    @property
    def job(self) -> ClaimedJob: ...

    def stop(self, why: StopReason) -> None:
        """May be called again. CANCEL and TIMEOUT leave it its grace, the others none."""


class Runner(Protocol):
    @property
    def level(self) -> str | None:
        """The level at which its jobs are isolated, once it is open."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def start(
        self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd
    ) -> Run | Report:
        """A report: it has ended already, and `on_end` will not be called."""


class JobServices(Protocol):
    """What the worker does for running jobs."""

    @property
    def worker_id(self) -> UUID: ...

    def note(
        self, job: ClaimedJob, kind: str, data: dict[str, Json], scope: RedactionScope
    ) -> None:
        """Keep the note for the next batch, where the scope's secrets are hidden in it.

        Of a job's progress only the latest note is kept.
        """

    async def enqueue(self, job: ClaimedJob, jobs: Sequence[JobRequest]) -> list[Enqueued]:
        """For the tenant of the job; its correlation flows on."""

    async def request(self, job: ClaimedJob, kind: str, data: Json) -> Json:
        """Anything else that a job needs the engine for, as JSON both ways, under its lease."""

    def secret(self, name: str) -> str:
        """Raises NotFound. The caller adds the value to the scope of its job."""
