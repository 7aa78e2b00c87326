"""The job whose code is running, for jobs in the worker's event loop."""

from contextvars import ContextVar

from jobforge.types.jobs import ClaimedJob

CURRENT_JOB: ContextVar[ClaimedJob | None] = ContextVar("jobforge_job", default=None)
