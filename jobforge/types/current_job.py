"""The job that the code at hand runs for, in the worker's own loop."""

from contextvars import ContextVar

from jobforge.types.jobs import ClaimedJob

CURRENT_JOB: ContextVar[ClaimedJob | None] = ContextVar("jobforge_job", default=None)
