"""The interface between the worker and its runners.

The worker claims jobs, keeps their leases and settles their outcomes. A Runner turns one claimed
job into one Report, and uses JobServices for what a running job needs from the worker. The worker
enforces timeouts and leases: it calls `Run.stop`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from jobforge.errors import Json
from jobforge.redact import RedactionScope
from jobforge.sdk.definition import Definition
from jobforge.sdk.verdict import StopReason, Verdict
from jobforge.sdk.worker_requests import WorkerRequest
from jobforge.types.jobs import ClaimedJob, Outcome

__all__ = ["RELEASED", "SUCCEEDED", "JobServices", "OnEnd", "Report", "Run", "Runner", "StopReason"]

T = TypeVar("T")


class Report(NamedTuple):
    """How a run ended. The verdict is None if the lease was lost: nothing is settled then."""

    verdict: Verdict | None
    exit_code: int | None = None
    pid: int | None = None
    peak_memory_bytes: int | None = None
    cpu_ms: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None
    large_result: bytes | None = None  # as JSON, replaces the verdict's result
    artifact_ref: str | None = None


# Called in the event loop's thread, once for each job for which `Runner.start` returned a Run.
OnEnd = Callable[[ClaimedJob, Report], None]

SUCCEEDED = Report(Verdict(Outcome.SUCCEEDED))
RELEASED = Report(Verdict(Outcome.RELEASED))


class Run(Protocol):
    """A job that is running."""

    @property
    def job(self) -> ClaimedJob: ...

    def stop(self, why: StopReason) -> None:
        """Stop the job; may be called again. CANCEL and TIMEOUT allow the grace period."""


class Runner(Protocol):
    @property
    def level(self) -> str | None:
        """The isolation level of the jobs; None before `open` and for inline jobs."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def start(
        self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd
    ) -> Run | Report:
        """Start the job. Return a Report if it has ended already; `on_end` is not called then."""


class JobServices(Protocol):
    """What the worker offers to running jobs."""

    @property
    def worker_id(self) -> UUID: ...

    def note(
        self, job: ClaimedJob, kind: str, data: dict[str, Json], scope: RedactionScope
    ) -> None:
        """Keep the note for the next batch, which redacts the scope's secrets in it.

        Only the latest progress note of a job is kept.
        """

    async def request(self, job: ClaimedJob, request: WorkerRequest[T]) -> T:
        """Send a request of the job to the engine, under the job's lease."""

    def secret(self, name: str) -> str:
        """Return the secret's value. Raises NotFound. The caller adds it to its job's scope."""
