"""The worker's services for its running jobs: notes, steps, secrets, and requests to the engine.

Each request runs under the lease of the job that sends it. A job enqueues for its own tenant only.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from jobforge import calls
from jobforge.artifacts import Artifacts
from jobforge.calls import Call
from jobforge.db.protocols import Engine
from jobforge.errors import Invalid, Json
from jobforge.observability import logs
from jobforge.payloads.size import may_have_large_payload
from jobforge.redact import NOT_HIDDEN_WARNING, RedactionScope, can_be_hidden, redact
from jobforge.sdk.call_context import inherit_correlation
from jobforge.sdk.enqueue_errors import rename_error_field
from jobforge.security.secret_lookup import Secrets
from jobforge.types.jobs import ClaimedJob, Enqueued, JobRequest
from jobforge.worker.notes import NoteBuffer
from jobforge.worker.payload_downloads import download_parent_results
from jobforge.worker.step_writer import StepWriter, build_children_call
from jobforge.worker.workflow_requests import build_request_call

T = TypeVar("T")


class WorkerJobServices:
    """The JobServices of a worker. It calls `on_note` and `on_step` after adding a note or step.

    Payloads that are too large for a row are stored in `payloads`, which is None if the worker is
    connected to a JobForge server: the server stores them itself.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each component that it uses
        self,
        worker_id: UUID,
        database: Engine,
        *,
        notes: NoteBuffer,
        steps: StepWriter,
        secrets: Secrets,
        artifacts: Artifacts | None,
        payloads: Artifacts | None,
        on_note: Callable[[], None],
        on_step: Callable[[], None],
    ) -> None:
        self.worker_id = worker_id
        self._database = database
        self._notes = notes
        self._steps = steps
        self._secrets = secrets
        self._artifacts = artifacts
        self._payloads = payloads
        self._on_note = on_note
        self._on_step = on_step
        self._short_secrets: set[str] = set()

    def note(
        self, job: ClaimedJob, kind: str, data: dict[str, Json], scope: RedactionScope
    ) -> None:
        self._notes.add(job, kind, data, scope)
        self._on_note()
        if logs.is_enabled("debug"):
            redacted = redact(data, scope)
            logs.emit(f"job.{kind}", level="debug", **logs.job_fields(job), data=redacted)

    async def enqueue(self, job: ClaimedJob, jobs: Sequence[JobRequest]) -> list[Enqueued]:
        requests = inherit_correlation(job, jobs)
        call = calls.enqueue_jobs(requests)
        if self._payloads is not None and may_have_large_payload(str(call.arguments["jobs"])):
            put = self._payloads.put_payloads
            call = calls.enqueue_jobs(await asyncio.to_thread(put, job.tenant_id, requests))
        return await self._run(call.under_lease(self.worker_id, job.token))

    async def request(self, job: ClaimedJob, kind: str, data: Json) -> Json:
        match kind:
            case "save_step":
                stored = self._steps.add(job, **data)
                self._on_step()
                return await stored
            case "enqueue_children":
                enqueued = await self._run(build_children_call(self.worker_id, job, **data))
                return [[str(each.job_id), each.status] for each in enqueued]
            case "parents":
                lineage = await self._run(build_request_call(self.worker_id, job, kind, data))
                whole = partial(download_parent_results, self._artifacts, job.tenant_id)
                return await asyncio.to_thread(whole, lineage)
            case _:
                return await self._run(build_request_call(self.worker_id, job, kind, data))

    def secret(self, name: str) -> str:
        value = self._secrets.lookup(name)
        if not can_be_hidden(value) and name not in self._short_secrets:
            self._short_secrets.add(name)
            logs.emit(
                "secret.not_hidden", level="warning", secret_name=name, reason=NOT_HIDDEN_WARNING
            )
        return value

    async def _run(self, call: Call[T]) -> T:
        try:
            return await self._database.run(call)
        except Invalid as error:
            raise rename_error_field(error) from error
