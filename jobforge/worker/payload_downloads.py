"""Download documents from the artifact store before their job sees them.

A job's payload and the results of its gathered jobs are downloaded before the job starts; the
results of its parents, when the job requests them.

For the worker, a PayloadDownload is the Run from the start of the download to the end of the job.
It reports the job as it was claimed; only the runner gets the job with the whole payload.
"""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from jobforge.artifacts import Artifacts
from jobforge.artifacts.artifact_reference import (
    MARKER_PREFIX,
    Marker,
    is_marked,
    marker_from_json,
    marker_from_text,
)
from jobforge.errors import ArtifactUnavailable, Invalid, InvalidPayload, Json
from jobforge.sdk.definition import Definition
from jobforge.sdk.verdict import ProcessExit, verdict_from_error, verdict_from_exit
from jobforge.types.jobs import ClaimedJob
from jobforge.types.jsonb import decode, encode
from jobforge.types.workflows import Lineage
from jobforge.worker.runner_protocol import OnEnd, Report, Run, Runner, StopReason

_NO_STORE = "The payload is in an artifact store, but the worker has none; set artifacts"
_MARK = '"$artifact"'


def needs_download(job: ClaimedJob, definition: Definition[..., Any]) -> bool:
    """Whether documents of the job are in the artifact store.

    This runs for every job, so it searches for the marker's text instead of parsing JSON.
    """
    text = job.payload_json
    return (
        text.startswith(MARKER_PREFIX)
        or (definition.has_artifacts_in_payload and _MARK in text)
        or (job.steps_json is not None and _MARK in job.steps_json)
    )


class PayloadDownload:
    """A Run that downloads the job's documents, then starts the job."""

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
        self._stopped: StopReason | None = None
        self._task = asyncio.get_running_loop().create_task(self._download_and_start())

    def stop(self, why: StopReason) -> None:
        if self._run is not None:
            self._run.stop(why)
        elif self._stopped is None or why.is_final:
            self._stopped = why
            self._task.cancel()

    async def _download_and_start(self) -> None:
        try:
            job = await asyncio.to_thread(
                download_documents, self._artifacts, self.job, self._definition
            )
            started = self._runner.start(job, self._definition, self._on_run_end)
        except asyncio.CancelledError:
            started = Report(
                verdict_from_exit(ProcessExit(), self._stopped or StopReason.SHUTDOWN, None)
            )
        except Exception as error:  # noqa: BLE001 - any error is the outcome of the attempt
            started = Report(verdict_from_error(error, self._definition.settings))
        if isinstance(started, Report):
            self._on_run_end(self.job, started)
        else:
            self._run = started

    def _on_run_end(self, _: ClaimedJob, report: Report) -> None:
        if report.artifact_ref is not None and is_marked(self.job.payload_json):
            # The job's artifact_ref must keep naming the stored payload; the result itself names
            # an artifact that the job has created.
            report = report._replace(artifact_ref=None)
        self._on_end(self.job, report)


def download_documents(
    artifacts: Artifacts | None, job: ClaimedJob, definition: Definition[..., Any]
) -> ClaimedJob:
    """Return the job with its whole payload and the whole results of the jobs that it gathered."""
    if artifacts is None:
        raise ArtifactUnavailable(_NO_STORE)
    try:
        return job._replace(
            payload_json=_download_payload(artifacts, job, definition),
            steps_json=_download_step_results(artifacts, job),
        )
    except Invalid as error:
        raise InvalidPayload(error.message, field=error.field) from error


def download_parent_results(
    artifacts: Artifacts | None, tenant_id: UUID, lineage: Lineage
) -> Lineage:
    """Return the job's lineage with its parents' whole results."""
    read = partial(_read_result, artifacts, tenant_id)
    parents = [replace(parent, result=read(parent.result)) for parent in lineage.parents]
    return replace(lineage, parents=parents)


def _read_result(artifacts: Artifacts | None, tenant_id: UUID, result: Json) -> Json:
    """Return the result; download it if it is in the artifact store."""
    marker = marker_from_json(result)
    if marker is None:
        return result
    if artifacts is None:
        raise ArtifactUnavailable(_NO_STORE)
    return decode(artifacts.read(marker, tenant_id))


def _download_step_results(artifacts: Artifacts, job: ClaimedJob) -> str | None:
    if job.steps_json is None or _MARK not in job.steps_json:
        return job.steps_json
    steps = decode(job.steps_json)
    for step in steps:
        if step["kind"] == "gather" and isinstance(step["result"], list):
            for gathered in step["result"]:
                gathered["result"] = _read_result(artifacts, job.tenant_id, gathered["result"])
    return encode(steps, "steps")


def _download_payload(
    artifacts: Artifacts, job: ClaimedJob, definition: Definition[..., Any]
) -> str:
    marker = marker_from_text(job.payload_json)
    if marker is not None:
        return artifacts.read(marker, job.tenant_id).decode()
    if definition.has_artifacts_in_payload and not is_marked(job.payload_json):
        return encode(_download_members(artifacts, job), "payload")
    return job.payload_json


def _download_members(artifacts: Artifacts, job: ClaimedJob) -> dict[str, Json]:
    """Return the payload with its artifacts: another job's payload and result (a hook job's)."""

    def read(marker: Marker) -> Json:
        return decode(artifacts.read(marker, job.tenant_id))

    members = decode(job.payload_json).items()
    markers = {name: marker for name, member in members if (marker := marker_from_json(member))}
    return {name: read(markers[name]) if name in markers else member for name, member in members}
