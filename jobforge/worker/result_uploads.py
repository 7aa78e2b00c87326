"""Upload results that are too large for a row to the artifact store, before their job is settled.

Until then the job's lease is renewed: a slow store must not let it expire. If the upload fails
after all retries, the attempt has failed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from jobforge.artifacts import Artifacts
from jobforge.artifacts.artifact_reference import is_marked
from jobforge.artifacts.keys import new_key
from jobforge.errors import ArtifactUnavailable, JobForgeError
from jobforge.sdk.verdict import Verdict
from jobforge.types.jobs import ClaimedJob, Outcome
from jobforge.worker.clock import now
from jobforge.worker.runner_protocol import RELEASED, Report, StopReason
from jobforge.worker.worker_state import WorkerState

# With this many concurrent uploads, the worker stops claiming.
_MAX_UPLOADS = 8
_PAUSES_S = (1.0, 5.0, 15.0)
_LOST = Report(None)


class ResultUploads:
    """The running uploads. Their jobs have ended, so they use no slots."""

    def __init__(self, state: WorkerState, artifacts: Artifacts | None) -> None:
        self._state = state
        self._artifacts = artifacts
        self._running: set[_Upload] = set()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def is_crowded(self) -> bool:
        return len(self._running) >= _MAX_UPLOADS

    def start(self, job: ClaimedJob, report: Report, text: bytes) -> None:
        upload = _Upload(self._artifacts, job, report, text, self._finish)
        self._running.add(upload)
        # The handler has ended, so a new attempt cannot overlap with it: if the lease is lost, only
        # the result is lost.
        self._state.leases.hold(upload, now() + self._state.settings.lease_s, None)
        self._state.wake_heartbeat.set()

    def close(self) -> None:
        for upload in [*self._running]:
            upload.stop(StopReason.LOST)

    def _finish(self, upload: "_Upload", report: Report) -> None:
        self._running.discard(upload)
        self._state.add_outcome(upload.job, report)
        self._state.wake_settler.set()
        self._state.changed.set()


class _Upload:
    """One upload. It is a Run in the lease table, so that the lease of its job is renewed."""

    def __init__(
        self,
        artifacts: Artifacts | None,
        job: ClaimedJob,
        report: Report,
        text: bytes,
        on_end: Callable[["_Upload", Report], None],
    ) -> None:
        self.job = job
        self._artifacts = artifacts
        self._report = report
        self._text = text
        self._on_end = on_end
        self._stop_report = RELEASED
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self, why: StopReason) -> None:
        """Stop the upload. CANCEL and TIMEOUT are ignored: the handler has already finished."""
        if why.is_final:
            self._stop_report = _LOST if why is StopReason.LOST else RELEASED
            self._task.cancel()

    async def _run(self) -> None:
        try:
            report = await self._upload_result()
        except asyncio.CancelledError:
            report = self._stop_report
        except Exception as error:  # noqa: BLE001 - any error is the outcome of the attempt
            report = _upload_failure(self._report, error)
        self._on_end(self, report)

    async def _upload_result(self) -> Report:
        if self._artifacts is None or not self._artifacts.is_configured:
            return _upload_failure(self._report, None)
        job, pauses = self.job, iter(_PAUSES_S)
        key = new_key(job.tenant_id, job.job_id, f"result-{job.lease}.json")
        while True:
            try:
                marker = await asyncio.to_thread(self._artifacts.put, key, self._text)
            except ArtifactUnavailable:
                pause = next(pauses, None)
                if pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                return _with_artifact(self._report, job, marker.to_json(), marker.ref)


def _with_artifact(report: Report, job: ClaimedJob, result: dict[str, object], ref: str) -> Report:
    verdict = replace(report.verdict or Verdict(Outcome.SUCCEEDED), result=result)
    # The job's artifact_ref must keep naming a stored payload; the key of the result has the
    # job's ID.
    artifact_ref = None if is_marked(job.payload_json) else ref
    return report._replace(verdict=verdict, large_result=None, artifact_ref=artifact_ref)


def _upload_failure(report: Report, error: Exception | None) -> Report:
    if error is None:
        failure = {
            "type": "ResultTooLarge",
            "message": "The result is too large for a row, and the worker has no artifact store;"
            " set artifacts (JOBFORGE_ARTIFACTS)",
        }
    else:
        name = type(error).__name__
        message = error.message if isinstance(error, JobForgeError) else str(error)
        failure = {"type": name, "message": f"The result could not be stored: {message}"}
    final = None if isinstance(error, ArtifactUnavailable) else True
    return report._replace(
        verdict=Verdict(Outcome.FAILED, error=failure, final=final), large_result=None
    )
