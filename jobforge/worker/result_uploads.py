"""Results that are too large for a row: put into the artifact store before their job is settled.

Until then the job is still held: a slow store must not let its lease run out. When the store fails
for good, so has the attempt.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from jobforge.artifacts import Artifacts
from jobforge.artifacts.keys import new_key
from jobforge.artifacts.marker import is_marked
from jobforge.errors import ArtifactUnavailable, JobForgeError
from jobforge.sdk.verdict import Verdict
from jobforge.types.jobs import ClaimedJob, Outcome
from jobforge.worker.clock import now
from jobforge.worker.leases import LeaseTable
from jobforge.worker.runner import RELEASED, Report, StopReason

# So many at once hold up the next claim.
_MAX_UPLOADS = 8
_PAUSES_S = (1.0, 5.0, 15.0)
_LOST = Report(None)


class ResultUploads:
    """`on_begin` is called when there is one more lease to keep, `on_end` when it is over."""

    def __init__(
        self,
        artifacts: Artifacts | None,
        leases: LeaseTable,
        *,
        lease_s: float,
        on_begin: Callable[[], None],
        on_end: Callable[[ClaimedJob, Report], None],
    ) -> None:
        self._artifacts = artifacts
        self._leases = leases
        self._lease_s = lease_s
        self._on_begin = on_begin
        self._on_end = on_end
        self._running: set[_Upload] = set()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def is_crowded(self) -> bool:
        return len(self._running) >= _MAX_UPLOADS

    def start(self, job: ClaimedJob, report: Report, text: bytes) -> None:
        deposit = _Upload(self._artifacts, job, report, text, self._finish)
        self._running.add(deposit)
        # The handler has ended, so nothing can overlap: a lease that is lost costs the result only.
        self._leases.hold(deposit, now() + self._lease_s, None)
        self._on_begin()

    def close(self) -> None:
        for deposit in [*self._running]:
            deposit.stop(StopReason.LOST)

    def _finish(self, deposit: "_Upload", report: Report) -> None:
        self._running.discard(deposit)
        self._on_end(deposit.job, report)


class _Upload:
    """A Run, as far as its lease goes."""

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
        """A cancel or a timeout comes too late: the job has done its work."""
        if why.is_final:
            self._stop_report = _LOST if why is StopReason.LOST else RELEASED
            self._task.cancel()

    async def _run(self) -> None:
        try:
            report = await self._upload_result()
        except asyncio.CancelledError:
            report = self._stop_report
        except Exception as error:  # noqa: BLE001 - whatever it is, it is how the attempt ended
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
    # A payload that lies in the store has to stay named; the result is found by the job's id.
    named = None if is_marked(job.payload_json) else ref
    return report._replace(verdict=verdict, large_result=None, artifact_ref=named)


def _upload_failure(report: Report, error: Exception | None) -> Report:
    if error is None:
        words = {
            "type": "ResultTooLarge",
            "message": "the result is too large for a row, and this worker has no artifact store:"
            " set artifacts (JOBFORGE_ARTIFACTS)",
        }
    else:
        name = type(error).__name__
        message = error.message if isinstance(error, JobForgeError) else str(error)
        words = {"type": name, "message": f"the result could not be put: {message}"}
    final = None if isinstance(error, ArtifactUnavailable) else True
    return report._replace(
        verdict=Verdict(Outcome.FAILED, error=words, final=final), large_result=None
    )
