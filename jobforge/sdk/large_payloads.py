"""Payloads and results of an app's jobs that are too large for a row, in the artifact store."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import UUID

from jobforge.artifacts import Artifacts, marker_from_json
from jobforge.client.request import TENANT_HEADER, ApiRequest
from jobforge.errors import JobForgeError, Json
from jobforge.sdk.call_context import refuse_inside_job
from jobforge.sdk.pools import Sender
from jobforge.types.jobs import Job, JobRequest
from jobforge.types.jsonb import decode

if TYPE_CHECKING:
    from jobforge.calls import Call

_RECORD_EVERY_S = 3600.0


class LargePayloads:
    """Stores an app's large payloads, and reads large results. Opens the store on first use."""

    def __init__(self, find_artifacts: Callable[[], Artifacts], *, is_recorded: bool) -> None:
        self.find_artifacts = find_artifacts
        self._is_recorded = is_recorded  # never on a Django database
        self._record_at = 0.0

    async def store(
        self, sender: Sender, tenant_id: UUID, jobs: Sequence[JobRequest]
    ) -> Sequence[JobRequest]:
        """Store large payloads; return the jobs with references to them."""
        artifacts = self.find_artifacts()
        stored = await sender.call_blocking(artifacts.put_payloads, tenant_id, jobs)
        await self._record_store(sender, artifacts)
        return stored

    async def read_result(self, sender: Sender, job: Job, *, is_remote: bool) -> Json:
        """Return the job's result, from its row or from the artifact store."""
        marker = marker_from_json(job.result)
        if marker is None:
            return job.result
        refuse_inside_job()
        if is_remote:
            download: Any = _download(job)  # not a Call: only a server has this request
            return await sender.send(download)
        artifacts = self.find_artifacts()
        # First, because the read fails in the wrong store.
        await self._record_store(sender, artifacts)
        return decode(await sender.call_blocking(artifacts.read, marker, job.tenant_id))

    async def _record_store(self, sender: Sender, artifacts: Artifacts) -> None:
        """Record the store once an hour, on the app's own connection, for `jobforge doctor`."""
        now = monotonic()
        if self._is_recorded and now >= self._record_at:
            self._record_at = now + _RECORD_EVERY_S
            with suppress(JobForgeError):
                await sender.send(await sender.call_blocking(_build_store_record_call, artifacts))


def _build_store_record_call(artifacts: Artifacts) -> "Call[None]":
    from jobforge.artifacts.store_identity import build_store_record_call  # noqa: PLC0415 - needed only for large payloads

    return build_store_record_call("app", artifacts)


def _download(job: Job) -> ApiRequest[Json]:
    return ApiRequest(
        "GET",
        f"/jobs/{job.id}/artifact",
        lambda document: document,
        query=(("proxied", "true"),),
        headers={TENANT_HEADER: str(job.tenant_id)},
        is_repeatable=True,
    )
