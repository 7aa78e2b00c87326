"""Documents that lie in the artifact store: fetched before their job sees them.

What a job was given, and what jobs that it gathers returned, is fetched before it is run; what its
parents returned, when it asks.

A Fetch is the run as the worker sees it, from before the fetching to the end of the job. The job
that it reports is the one that was claimed: the payload stays with whatever runs it.
"""

import asyncio
from typing import Any
from uuid import UUID

from jobforge.artifacts import Artifacts
from jobforge.artifacts.marker import BEGINNING, Marker, is_marked, marker_in, marker_of
from jobforge.errors import ArtifactUnavailable, Invalid, InvalidPayload, Json
from jobforge.sdk.definition import Definition
from jobforge.sdk.verdict import Exit, exited, raised
from jobforge.types.jobs import ClaimedJob
from jobforge.types.jsonb import decode, encode
from jobforge.worker.runner import OnEnd, Report, Run, Runner, Stop

_NO_STORE = "a document lies in an artifact store, and this worker has none: set artifacts"
_MARK = '"$artifact"'


def needs_fetch(job: ClaimedJob, definition: Definition[..., Any]) -> bool:
    """Asked of every job, so a look at the beginning of its payload has to do."""
    text = job.payload_json
    return (
        text.startswith(BEGINNING)
        or (definition.tells_of_others and _MARK in text)
        or (job.steps_json is not None and _MARK in job.steps_json)
    )


class Fetch:
    """A Run."""

    def __init__(
        self,
        artifacts: Artifacts | None,
        job: ClaimedJob,
        definition: Definition[..., Any],
        runner: Runner,
        on_end: OnEnd,
    ) -> None:
        self.job = job
        self._artifacts = artifacts
        self._definition = definition
        self._runner = runner
        self._on_end = on_end
        self._run: Run | None = None
        self._stopped: Stop | None = None
        self._task = asyncio.get_running_loop().create_task(self._begin())

    def stop(self, why: Stop) -> None:
        if self._run is not None:
            self._run.stop(why)
        elif self._stopped is None or why.is_final:
            self._stopped = why
            self._task.cancel()

    async def _begin(self) -> None:
        try:
            job = await asyncio.to_thread(fetched, self._artifacts, self.job, self._definition)
            started = self._runner.start(job, self._definition, self._ended)
        except asyncio.CancelledError:
            started = Report(exited(Exit(), self._stopped or Stop.SHUTDOWN, None))
        except Exception as error:  # noqa: BLE001 - it could not be run: that is how it ended
            started = Report(raised(error, self._definition.settings))
        if isinstance(started, Report):
            self._ended(self.job, started)
        else:
            self._run = started

    def _ended(self, _: ClaimedJob, report: Report) -> None:
        if report.artifact_ref is not None and is_marked(self.job.payload_json):
            # A payload that lies in the store has to stay named; what it made, its result names.
            report = report._replace(artifact_ref=None)
        self._on_end(self.job, report)


def fetched(
    artifacts: Artifacts | None, job: ClaimedJob, definition: Definition[..., Any]
) -> ClaimedJob:
    """The job with its whole payload, and the whole results of the jobs that it gathered."""
    if artifacts is None:
        raise ArtifactUnavailable(_NO_STORE)
    try:
        return job._replace(
            payload_json=_payload(artifacts, job, definition), steps_json=_steps(artifacts, job)
        )
    except Invalid as error:
        raise InvalidPayload(error.message, field=error.field) from error


def with_parents(artifacts: Artifacts | None, tenant_id: UUID, lineage: dict[str, Json]) -> Json:
    """What a job comes from, with all that its parents returned."""
    return {**lineage, "parents": _with_results(artifacts, tenant_id, lineage["parents"])}


def _with_results(
    artifacts: Artifacts | None, tenant_id: UUID, jobs: list[dict[str, Json]]
) -> list[dict[str, Json]]:
    markers = [marker_in(job["result"]) for job in jobs]
    if not any(markers):
        return jobs
    if artifacts is None:
        raise ArtifactUnavailable(_NO_STORE)
    return [
        job if marker is None else {**job, "result": decode(artifacts.read(marker, tenant_id))}
        for job, marker in zip(jobs, markers, strict=True)
    ]


def _steps(artifacts: Artifacts, job: ClaimedJob) -> str | None:
    if job.steps_json is None or _MARK not in job.steps_json:
        return job.steps_json
    steps = decode(job.steps_json)
    for step in steps:
        if step["kind"] == "gather" and isinstance(step["result"], list):
            step["result"] = _with_results(artifacts, job.tenant_id, step["result"])
    return encode(steps, "steps")


def _payload(artifacts: Artifacts, job: ClaimedJob, definition: Definition[..., Any]) -> str:
    marker = marker_of(job.payload_json)
    if marker is not None:
        return artifacts.read(marker, job.tenant_id).decode()
    if definition.tells_of_others and not is_marked(job.payload_json):
        return encode(_with_others(artifacts, job), "payload")
    return job.payload_json


def _with_others(artifacts: Artifacts, job: ClaimedJob) -> dict[str, Json]:
    """A payload that tells of another job, with what that one was given and has returned."""

    def read(marker: Marker) -> Json:
        return decode(artifacts.read(marker, job.tenant_id))

    members = decode(job.payload_json).items()
    markers = {name: marker for name, member in members if (marker := marker_in(member))}
    return {name: read(markers[name]) if name in markers else member for name, member in members}
