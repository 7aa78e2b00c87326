"""The engine for a worker without database access, over the server's routes for workers.

HttpEngine takes the place of a Database, with links for claims, outcomes and maintenance that have
separate connections. It has no LISTEN: a claim without jobs waits at the server (long polling).
"""

from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn, TypeVar

from jobforge.calls import Call, PendingResult
from jobforge.client.address import ServerAddress
from jobforge.client.http_only_requests import whoami
from jobforge.client.routes import ROUTES, CallArguments, Route, Routes
from jobforge.client.transport import AsyncTransport
from jobforge.errors import Conflict, Denied, Json, TooManyRequests, Unauthenticated, Unavailable
from jobforge.types.api_keys import Role
from jobforge.types.jobs import Token

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
            raise Denied(f"The key must have the role worker or super_admin, not {identity.role}")

    async def run(self, call: Call[T]) -> T:
        return await self._link.run(call)

    def create_link(self, *, durable: bool = True) -> "HttpLink":  # noqa: ARG002 - the server decides on durability
        return HttpLink(self._address)

    def listen(self, *channels: str) -> NoReturn:
        raise Conflict(f"Cannot listen to {', '.join(channels)} over HTTP")

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


def _claim(arguments: CallArguments) -> dict[str, Json]:
    queues = zip(arguments["queues"], arguments["limits"], strict=True)
    return {
        "worker_id": arguments["worker_id"],
        "queues": dict(queues),
        "definitions": arguments["definitions"],
        "registered": arguments["registered"],
        "lease_s": arguments["lease_s"],
        "wait_s": _WAIT_S,
    }


def _definition(arguments: CallArguments) -> dict[str, Json]:
    return {"definitions": [{**arguments, "settings": arguments["settings"].value}]}


def _successes(arguments: CallArguments) -> dict[str, Json]:
    arrays = (arguments[name].values for name in ("tenants", "jobs", "leases"))
    tokens = list(map(Token, *arrays))
    results = arguments["results"].values if arguments["results"] else [None] * len(tokens)
    outcomes = [
        {**token._asdict(), "outcome": "succeeded", "result": result}
        for token, result in zip(tokens, results, strict=True)
    ]
    return {"worker_id": arguments["worker_id"], "outcomes": outcomes}


WORKER_ROUTES: Routes = {
    "register_worker": Route("POST /worker/register"),
    "unregister_worker": Route("POST /worker/unregister"),
    "put_definition": Route("POST /worker/definitions", members=_definition),
    "declare_triggers": ROUTES["declare_triggers"],
    "claim_jobs": Route("POST /worker/jobs/claim", members=_claim),
    "heartbeat_jobs": Route("POST /worker/jobs/heartbeat"),
    "note_jobs": Route("POST /worker/jobs/notes"),
    "save_steps": Route("POST /worker/jobs/steps"),
    "enqueue_children": Route("POST /worker/jobs/children"),
    "complete_jobs": Route("POST /worker/jobs/complete"),
    "succeed_jobs": Route("POST /worker/jobs/complete", members=_successes),
    "release_jobs": Route("POST /worker/release"),
    "enqueue_jobs": Route("POST /worker/jobs/enqueue"),
    "load_parents": Route("POST /worker/jobs/parents"),
    "add_workflow_jobs": Route("POST /worker/jobs/nodes"),
    "reap_jobs": Route("POST /worker/jobs/reap"),
    "ensure_partitions": Route("POST /worker/partitions", without=("days",)),
}
# Maintenance that the server runs itself.
_SERVER_SIDE_CALLS = {"advance_operations"}
