"""What the worker does for its running jobs: keeps what they say, and asks the engine for them.

Each question is put under the lease of the job that asks. What a job enqueues is of its tenant.
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
from jobforge.redact import UNSAFE, Scope, can_be_hidden, redact
from jobforge.sdk.job_scope import flowing
from jobforge.sdk.options import as_given
from jobforge.security.secrets import Secrets
from jobforge.types.jobs import ClaimedJob, Enqueued, JobRequest
from jobforge.worker.notes import Notes
from jobforge.worker.payload_downloads import with_parents
from jobforge.worker.step_writer import Steps, children
from jobforge.worker.workflow_requests import question

T = TypeVar("T")


class WorkerHost:
    """A Host. `on_note` and `on_step` are called when there is one more to be sent.

    Payloads that are too large for a row go to `payloads`; a server puts them away by itself.
    """

    def __init__(  # noqa: PLR0913 - the parts that it works on
        self,
        worker_id: UUID,
        database: Engine,
        *,
        notes: Notes,
        steps: Steps,
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

    def note(self, job: ClaimedJob, kind: str, data: dict[str, Json], scope: Scope) -> None:
        self._notes.add(job, kind, data, scope)
        self._on_note()
        if logs.is_enabled("debug"):
            said = redact(data, scope)
            logs.emit(f"job.{kind}", level="debug", **logs.fields_of(job), data=said)

    async def enqueue(self, job: ClaimedJob, jobs: Sequence[JobRequest]) -> list[Enqueued]:
        requests = flowing(job, jobs)
        call = calls.enqueue_jobs(requests)
        if self._payloads is not None and may_have_large_payload(str(call.parameters[0])):
            put = self._payloads.put_payloads
            call = calls.enqueue_jobs(await asyncio.to_thread(put, job.tenant_id, requests))
        return await self._run(call.within(self.worker_id, job.token))

    async def ask(self, job: ClaimedJob, kind: str, data: Json) -> Json:
        match kind:
            case "save_step":
                stored = self._steps.add(job, **data)
                self._on_step()
                return await stored
            case "enqueue_children":
                made = await self._run(children(self.worker_id, job, **data))
                return [[str(each.job_id), each.status] for each in made]
            case "parents":
                lineage = await self._run(question(self.worker_id, job, kind, data))
                whole = partial(with_parents, self._artifacts, job.tenant_id)
                return await asyncio.to_thread(whole, lineage)
            case _:
                return await self._run(question(self.worker_id, job, kind, data))

    def secret(self, name: str) -> str:
        value = self._secrets.lookup(name)
        if not can_be_hidden(value) and name not in self._short_secrets:
            self._short_secrets.add(name)
            logs.emit("secret.not_hidden", level="warning", secret_name=name, reason=UNSAFE)
        return value

    async def _run(self, call: Call[T]) -> T:
        try:
            return await self._database.run(call)
        except Invalid as error:
            raise as_given(error) from error
