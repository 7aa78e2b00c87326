"""The engine for a worker without database access, over the server's routes for workers.

HttpEngine takes the place of a Database, with links for claims, outcomes and maintenance that have
separate connections. It has no LISTEN: a claim without jobs waits at the server (long polling).
"""

import json
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import orjson

from jobforge.calls import Call, PendingResult
from jobforge.calls.binary_arrays import unpack_documents, unpack_tokens
from jobforge.calls.rows import Rows
from jobforge.client.address import ServerAddress
from jobforge.client.http_only_requests import whoami
from jobforge.client.request_encoding import RawJson, encode_body
from jobforge.client.routes import ROUTES, Route, Routes
from jobforge.client.rows import RowReader, created_jobs, heartbeat, items, no_rows, single_value
from jobforge.client.transport import AsyncTransport
from jobforge.errors import Conflict, Denied, Json, TooManyRequests, Unauthenticated, Unavailable
from jobforge.types.api_keys import Role
from jobforge.types.jobs import ClaimedJob, encode_timestamp

T = TypeVar("T")

# How long a claim waits at the server. The wait is short for two reasons: the claim does not know
# of slots that become free in the meantime, and a worker that stops must wait for the response,
# because it would lose the jobs in it.
_WAIT_S = 2.0
_TIMEOUT_S = 10.0


class HttpEngine:
    """An HTTP server in place of a worker's database."""

    can_listen = False
    runs_bulk_operations = True
    poll_s = 0.05  # short, because claims wait at the server

    def __init__(self, address: ServerAddress) -> None:
        # The worker's loops retry, and do other work in the meantime.
        self._address = replace(address, timeout_s=_TIMEOUT_S, retries=0)
        self._link = HttpLink(self._address)

    async def open(self) -> None:
        """Check the connection. Raises Unavailable, or Denied if the key is not for workers."""
        identity = await self._link.transport.run(whoami())
        if identity.role not in {Role.WORKER, Role.SUPER_ADMIN}:
            raise Denied(f"the key's role is {identity.role}, and a worker's must be worker")

    async def run(self, call: Call[T]) -> T:
        return await self._link.run(call)

    def create_link(self, *, durable: bool = True) -> "HttpLink":  # noqa: ARG002 - the server decides on durability
        return HttpLink(self._address)

    def listen(self, *channels: str) -> NoReturn:
        raise Conflict(f"nobody can listen to {', '.join(channels)} over HTTP")

    async def close(self) -> None:
        await self._link.close()


class HttpLink:
    """The connections of one loop of a worker."""

    def __init__(self, address: ServerAddress) -> None:
        self.transport = AsyncTransport(address, WORKER_ROUTES)

    async def run(self, call: Call[T]) -> T:
        if call.function in _SERVER_SIDE_CALLS:
            return call.decode([])
        with _translate_refusals():
            return await self.transport.run(call)

    async def send(self, call: Call[T]) -> PendingResult[T]:
        response = await self.run(call)
        return PendingResult.from_value(
            len(response) if isinstance(response, Sized) else 1, response
        )

    async def close(self) -> None:
        await self.transport.close()


@contextmanager
def _translate_refusals() -> Iterator[None]:
    """Translate errors that pass to Unavailable, because a worker retries only those.

    An invalid key becomes Denied.
    """
    try:
        yield
    except TooManyRequests as error:
        raise Unavailable(error.message, detail=error.detail) from error
    except Unauthenticated as error:
        raise Denied(error.message, detail=error.detail) from error


def _claim(parameters: Sequence[Any]) -> dict[str, Json]:
    _, worker_id, queues, limits, definitions, _, lease_s, registered = parameters
    return {
        "worker_id": worker_id,
        "queues": dict(zip(queues, limits, strict=True)),
        "definitions": definitions,
        "registered": registered,
        "lease_s": lease_s,
        "wait_s": _WAIT_S,
    }


def _definition(parameters: Sequence[Any]) -> dict[str, Json]:
    key, version, settings = parameters
    definition = encode_body({"key": key, "version": version, "settings": RawJson(settings)})
    return {"definitions": RawJson(f"[{definition.decode()}]")}


def _successes(parameters: Sequence[Any]) -> dict[str, Json]:
    worker_id, tenants, jobs, leases, documents = parameters
    tokens = unpack_tokens(tenants, jobs, leases)
    results = [None] * len(tokens) if documents is None else unpack_documents(documents)
    outcomes = (
        encode_body(
            {**token._asdict(), "outcome": "succeeded", "result": RawJson(result or "null")}
        )
        for token, result in zip(tokens, results, strict=True)
    )
    return {"worker_id": worker_id, "outcomes": RawJson(f"[{b','.join(outcomes).decode()}]")}


def _unsettled_rows(response: Json) -> Rows:
    return [
        (UUID(item["job_id"]), item["lease"])
        for item in response["items"]
        if item["status"] != "ok"
    ]


def _lineage(response: Json) -> Rows:
    return [(response["parents"], response["workflow"])]


_settled_rows: RowReader = items(job_id=UUID, lease=None, status=None, state=None)


def claimed_job_rows(response: Json) -> Rows:
    return [_claimed_job(item) for item in response["items"]]


def _claimed_job(item: Json) -> ClaimedJob:
    return ClaimedJob(
        UUID(item["tenant_id"]),
        UUID(item["job_id"]),
        item["lease"],
        item["definition"],
        item["version"],
        item["queue"],
        item["attempt"],
        item["max_attempts"],
        item["timeout_s"],
        encode_timestamp(datetime.fromisoformat(item["started_at"])),
        item["source"],
        item["correlation_id"],
        item["traceparent"],
        item["idempotency_key"],
        item["tags"],
        _text(item["payload"]),
        _text(steps) if (steps := item.get("steps")) is not None else None,
        item.get("waited_s", 0.0),
    )


def _text(payload: Json) -> str:
    try:
        return orjson.dumps(payload).decode()
    except TypeError:  # it has an integer of more than 64 bits
        return json.dumps(payload)


WORKER_ROUTES: Routes = {
    "register_worker": Route(
        "POST /worker/register",
        "worker_id queues slots definitions host pid build isolation",
        no_rows,
    ),
    "unregister_worker": Route("POST /worker/unregister", "worker_id", no_rows),
    "put_definition": Route("POST /worker/definitions", _definition, no_rows),
    "declare_triggers": ROUTES["declare_triggers"],
    "claim_jobs": Route("POST /worker/jobs/claim", _claim, claimed_job_rows),
    "heartbeat_jobs": Route(
        "POST /worker/jobs/heartbeat",
        "worker_id jobs:json lease_s memory_bytes clock",
        heartbeat,
    ),
    "note_jobs": Route(
        "POST /worker/jobs/notes",
        "worker_id notes:json",
        items(job_id=UUID, lease=None, status=None),
    ),
    "save_steps": Route(
        "POST /worker/jobs/steps",
        "worker_id steps:json",
        items(job_id=UUID, lease=None, name=None, index=None, status=None),
    ),
    "enqueue_children": Route(
        "POST /worker/jobs/children", "- - - name index jobs:json", created_jobs
    ),
    "complete_jobs": Route("POST /worker/jobs/complete", "worker_id outcomes:json", _settled_rows),
    "succeed_jobs": Route("POST /worker/jobs/complete", _successes, _unsettled_rows),
    "release_jobs": Route("POST /worker/release", "worker_id jobs:json", _settled_rows),
    "enqueue_jobs": Route("POST /worker/jobs/enqueue", "jobs:json -", created_jobs),
    "load_parents": Route("POST /worker/jobs/parents", "- - -", _lineage),
    "add_workflow_jobs": Route(
        "POST /worker/jobs/nodes", "- - - nodes:json", items(node=None, job_id=UUID)
    ),
    "reap_jobs": Route(
        "POST /worker/jobs/reap",
        "limit",
        items(tenant_id=UUID, job_id=UUID, lease=None, state=None),
    ),
    "ensure_partitions": Route("POST /worker/partitions", "-", single_value("created")),
}
# Maintenance that the server runs itself.
_SERVER_SIDE_CALLS = {"advance_operations"}
