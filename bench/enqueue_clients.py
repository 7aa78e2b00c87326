"""Clients that make jobs, over HTTP or by SQL: a program, to have a process to themselves.

Each client is a thread with a connection that it keeps. Over HTTP that is a bare socket and a few
lines that read the answer: it costs less than the driver does by SQL. Both start with the job as
Python data and end when they have the whole answer. The program reads a plan and answers one line,
both JSON.
"""

import json
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Literal
from uuid import UUID

import orjson

from jobforge import calls, db
from jobforge.types.jobs import JobRequest

Way = Literal["http", "sql"]
Make = Callable[[int], None]

_WARM = 10  # requests of each client before the clock starts
_LONGEST_S = 60
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Plan:
    """What clients are to do: so many requests each, of so many jobs."""

    way: Way
    clients: int
    requests: int
    jobs: int
    host: str
    port: int
    key: str
    login: str
    tenant: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Http:
    """One connection to a server."""

    def __init__(self, address: tuple[str, int], key: str) -> None:
        self._socket = socket.create_connection(address, timeout=_LONGEST_S)
        self._socket.settimeout(None)  # with one, each send and each receive is two system calls
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = (
            f" HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\n"
        ).encode()

    def ask(self, request: str, body: bytes = b"") -> bytes:
        """`GET /api/v1/jobs`: the body of the answer. What is refused is an error."""
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        self._socket.sendall(request.encode() + self._headers + length + body)
        answer = self._receive()
        head_end = answer.index(_HEAD_END)
        if not answer.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(f"{request}: {answer.decode()}")
        found = _LENGTH.search(answer, 0, head_end)
        if found is None:
            raise RuntimeError(f"{request}: the answer does not tell its length")
        missing = head_end + len(_HEAD_END) + int(found[1]) - len(answer)
        parts = [answer]
        while missing > 0:
            parts.append(self._receive())
            missing -= len(parts[-1])
        return b"".join(parts)[head_end + len(_HEAD_END) :]

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> bytes:
        received = self._socket.recv(1 << 16)
        if not received:
            raise RuntimeError("the server hung up")
        return received


def run(plan: Plan) -> dict[str, float]:
    """Seconds from the first request to the last answer, and what of it this process computed."""
    with ExitStack() as stack, ThreadPoolExecutor(plan.clients) as pool:
        clients = [stack.enter_context(_OPENED[plan.way](plan)) for _ in range(plan.clients)]
        _make_all(pool, clients, _WARM)
        start, computed = time.perf_counter(), time.process_time()
        _make_all(pool, clients, plan.requests)
        return {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - computed,
        }


def _make_all(pool: ThreadPoolExecutor, clients: list[Make], requests: int) -> None:
    def repeat(make: Make) -> None:
        for number in range(requests):
            make(number)

    for _ in pool.map(repeat, clients):
        pass


@contextmanager
def _over_http(plan: Plan) -> Iterator[Make]:
    many = [job.to_json() for job in _jobs(plan.jobs)]
    http = Http((plan.host, plan.port), plan.key)

    def make(number: int) -> None:
        job = {"definition": "noop", "payload": {"n": number}}
        http.ask("POST /api/v1/jobs", orjson.dumps(job))

    def make_many(_: int) -> None:
        http.ask("POST /api/v1/jobs/batch", orjson.dumps({"jobs": many}))

    yield make if plan.jobs == 1 else make_many
    http.close()


@contextmanager
def _by_sql(plan: Plan) -> Iterator[Make]:
    tenant_id = UUID(plan.tenant)
    many = _jobs(plan.jobs)
    with db.connect(plan.login) as conn:

        def make(number: int) -> None:
            job = JobRequest("noop", {"n": number})
            db.run(conn, calls.enqueue_job(job, tenant_id=tenant_id))

        def make_many(_: int) -> None:
            db.run(conn, calls.enqueue_jobs(many, tenant_id=tenant_id))

        yield make if plan.jobs == 1 else make_many


def _jobs(count: int) -> list[JobRequest]:
    return [JobRequest("noop", {"n": number}) for number in range(count)]


_OPENED = {"http": _over_http, "sql": _by_sql}


if __name__ == "__main__":
    print(json.dumps(run(Plan(**json.load(sys.stdin)))))
