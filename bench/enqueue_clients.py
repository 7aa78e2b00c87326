"""Program whose clients enqueue jobs over HTTP or by SQL, in a process separate from the benchmark.

Each client is a thread with a persistent connection. Over HTTP the connection is a bare socket, and
a few lines parse the response, which costs less than the SQL driver does. A measurement starts with
the job as Python data and ends when the client has the whole response. The program reads a plan
from stdin and prints one line, both in JSON.
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

Transport = Literal["http", "sql"]
Enqueue = Callable[[int], None]

_WARM = 10  # requests per client before the measurement starts
_LONGEST_S = 60
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of the clients: the number of requests per client and of jobs per request."""

    transport: Transport
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


class HttpConnection:
    """A persistent connection to a server."""

    def __init__(self, address: tuple[str, int], key: str) -> None:
        self._socket = socket.create_connection(address, timeout=_LONGEST_S)
        self._socket.settimeout(None)  # a timeout adds a system call to each send and receive
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = (
            f" HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\n"
        ).encode()

    def request(self, request: str, body: bytes = b"") -> bytes:
        """Send a request such as `GET /api/v1/jobs` and return the response's body."""
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        self._socket.sendall(request.encode() + self._headers + length + body)
        response = self._receive()
        head_end = response.index(_HEAD_END)
        if not response.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(f"{request}: {response.decode()}")
        found = _LENGTH.search(response, 0, head_end)
        if found is None:
            raise RuntimeError(f"{request}: the response has no Content-Length")
        missing = head_end + len(_HEAD_END) + int(found[1]) - len(response)
        parts = [response]
        while missing > 0:
            parts.append(self._receive())
            missing -= len(parts[-1])
        return b"".join(parts)[head_end + len(_HEAD_END) :]

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> bytes:
        received = self._socket.recv(1 << 16)
        if not received:
            raise RuntimeError("the server closed the connection")
        return received


def run(plan: Plan) -> dict[str, float]:
    """Return the seconds from the first request to the last response, and the clients' CPU time."""
    with ExitStack() as stack, ThreadPoolExecutor(plan.clients) as pool:
        clients = [stack.enter_context(_CONNECT[plan.transport](plan)) for _ in range(plan.clients)]
        _enqueue_all(pool, clients, _WARM)
        start, computed = time.perf_counter(), time.process_time()
        _enqueue_all(pool, clients, plan.requests)
        return {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - computed,
        }


def _enqueue_all(pool: ThreadPoolExecutor, clients: list[Enqueue], requests: int) -> None:
    def repeat(enqueue: Enqueue) -> None:
        for number in range(requests):
            enqueue(number)

    for _ in pool.map(repeat, clients):
        pass


@contextmanager
def _over_http(plan: Plan) -> Iterator[Enqueue]:
    many = [job.to_json() for job in _jobs(plan.jobs)]
    http = HttpConnection((plan.host, plan.port), plan.key)

    def enqueue(number: int) -> None:
        job = {"definition": "noop", "payload": {"n": number}}
        http.request("POST /api/v1/jobs", orjson.dumps(job))

    def enqueue_many(_: int) -> None:
        http.request("POST /api/v1/jobs/batch", orjson.dumps({"jobs": many}))

    yield enqueue if plan.jobs == 1 else enqueue_many
    http.close()


@contextmanager
def _by_sql(plan: Plan) -> Iterator[Enqueue]:
    tenant_id = UUID(plan.tenant)
    many = _jobs(plan.jobs)
    with db.connect(plan.login) as conn:

        def enqueue(number: int) -> None:
            job = JobRequest("noop", {"n": number})
            db.run(conn, calls.enqueue_job(job, tenant_id=tenant_id))

        def enqueue_many(_: int) -> None:
            db.run(conn, calls.enqueue_jobs(many, tenant_id=tenant_id))

        yield enqueue if plan.jobs == 1 else enqueue_many


def _jobs(count: int) -> list[JobRequest]:
    return [JobRequest("noop", {"n": number}) for number in range(count)]


_CONNECT = {"http": _over_http, "sql": _by_sql}


if __name__ == "__main__":
    print(json.dumps(run(Plan(**json.load(sys.stdin)))))
