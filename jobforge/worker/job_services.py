"""The worker's services for its running jobs: notes, steps, secrets, and requests to the engine.

Each request runs under the lease of the job that sends it. A job enqueues for its own tenant only.
"""

import asyncio
from functools import partial
from typing import Any, TypeVar, cast

from jobforge.artifacts import Artifacts
from jobforge.calls import Call
from jobforge.db.protocols import Engine
from jobforge.errors import Invalid, Json
from jobforge.observability import logs
from jobforge.payloads.size import may_have_large_payload
from jobforge.redact import NOT_HIDDEN_WARNING, RedactionScope, can_be_hidden, redact
from jobforge.sdk.enqueue_errors import rename_error_field
from jobforge.sdk.worker_requests import EnqueueJobs, LoadParents, SaveStep, WorkerRequest
from jobforge.security.secret_lookup import Secrets
from jobforge.types.jobs import ClaimedJob, Enqueued
from jobforge.worker.payload_downloads import download_parent_results
from jobforge.worker.step_writer import StepWriter
from jobforge.worker.worker_state import WorkerState

T = TypeVar("T")


class WorkerJobServices:
    """The JobServices of a worker."""

    def __init__(
        self,
        state: WorkerState,
        database: Engine,
        steps: StepWriter,
        secrets: Secrets,
        artifacts: Artifacts | None,
    ) -> None:
        self.worker_id = state.worker_id
        self._state = state
        self._database = database
        self._steps = steps
        self._secrets = secrets
        self._artifacts = artifacts
        # A JobForge server stores large payloads itself.
        self._payloads = None if database.runs_bulk_operations else artifacts
        self._short_secrets: set[str] = set()

    def note(
        self, job: ClaimedJob, kind: str, data: dict[str, Json], scope: RedactionScope
    ) -> None:
        self._state.notes.add(job, kind, data, scope)
        self._state.wake_settler.set()
        if logs.is_enabled("debug"):
            redacted = redact(data, scope)
            logs.emit(f"job.{kind}", level="debug", **logs.job_fields(job), data=redacted)

    async def request(self, job: ClaimedJob, request: WorkerRequest[T]) -> T:
        answer: Any
        match request:
            case SaveStep():
                answer = await self._steps.add(request.to_step(job.token))  # type: ignore[func-returns-value] # None
            case LoadParents():
                lineage = await self._run(request.build_call(self.worker_id, job))
                download = partial(download_parent_results, self._artifacts, job.tenant_id)
                answer = await asyncio.to_thread(download, lineage)
            case EnqueueJobs():
                answer = await self._enqueue(job, request)
            case _:
                answer = await self._run(request.build_call(self.worker_id, job))
        return cast("T", answer)

    def secret(self, name: str) -> str:
        value = self._secrets.lookup(name)
        if not can_be_hidden(value) and name not in self._short_secrets:
            self._short_secrets.add(name)
            logs.emit(
                "secret.not_hidden", level="warning", secret_name=name, reason=NOT_HIDDEN_WARNING
            )
        return value

    async def _enqueue(self, job: ClaimedJob, request: EnqueueJobs) -> list[Enqueued]:
        call = request.build_call(self.worker_id, job)
        if self._payloads is not None and may_have_large_payload(str(call.arguments["jobs"])):
            put = self._payloads.put_payloads
            jobs = await asyncio.to_thread(put, job.tenant_id, request.jobs)
            call = EnqueueJobs(jobs).build_call(self.worker_id, job)
        return await self._run(call)

    async def _run(self, call: Call[T]) -> T:
        try:
            return await self._database.run(call)
        except Invalid as error:
            raise rename_error_field(error) from error
