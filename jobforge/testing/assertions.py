"""Match enqueued jobs against expectations, and describe mismatches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from pydantic_core import to_jsonable_python

from jobforge.errors import Json
from jobforge.testing.database import EnqueuedJob

# Jobs listed in a failure message: about one screen.
_LISTED = 20


@dataclass(frozen=True, slots=True)
class ExpectedJobs:
    """The jobs that a test expects. None matches any value; `payload` may be a subset."""

    definition: str
    tenant: str | UUID | None = None
    queue: str | None = None
    key: str | None = None
    payload: Mapping[str, Json] = field(default_factory=dict)

    def matches(self, job: EnqueuedJob) -> bool:
        return (
            self.definition in {job.definition, f"{job.definition}@{job.version}"}
            and self._is_of_tenant(job)
            and self.queue in {None, job.queue}
            and self.key in {None, job.key}
            and _contains(job.payload, to_jsonable_python(dict(self.payload)))
        )

    def _is_of_tenant(self, job: EnqueuedJob) -> bool:
        if self.tenant is None:
            return True
        return str(self.tenant) in {job.tenant, str(job.tenant_id)}

    def __str__(self) -> str:
        options = {"tenant": self.tenant, "queue": self.queue, "key": self.key}
        words = [f"{name}={value!s}" for name, value in options.items() if value is not None]
        words += [f"{name}={value!r}" for name, value in self.payload.items()]
        return f"{self.definition}({', '.join(words)})"


def describe_mismatch(
    wanted: ExpectedJobs, expected: str, found: int, jobs: Sequence[EnqueuedJob]
) -> str:
    """Return the message of a failed assertion, with the jobs that were enqueued."""
    lines = [f"Expected {expected} of {wanted}, found {found}"]
    if not jobs:
        return f"{lines[0]}\nNo jobs were enqueued"
    # Jobs of the expected definition first: the intended job is most likely one of them.
    ordered = sorted(jobs, key=lambda job: job.definition != wanted.definition.split("@")[0])
    lines.append(f"{len(jobs)} jobs were enqueued:" if len(jobs) > 1 else "1 job was enqueued:")
    lines += [f"  {_format_job(job)}" for job in ordered[:_LISTED]]
    if len(jobs) > _LISTED:
        lines.append(f"  and {len(jobs) - _LISTED} more")
    return "\n".join(lines)


def _contains(payload: Mapping[str, Json], wanted: Mapping[str, Json]) -> bool:
    return all(name in payload and payload[name] == value for name, value in wanted.items())


def _format_job(job: EnqueuedJob) -> str:
    words = [f"{job.definition}@{job.version}", job.state, f"tenant={job.tenant or job.tenant_id}"]
    words.append(f"queue={job.queue}")
    if job.key is not None:
        words.append(f"key={job.key}")
    words.append(str(job.payload))
    return " ".join(words)
