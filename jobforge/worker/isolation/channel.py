"""The job's end of the socket to its worker: the JobChannel of its context and its enqueues.

Requests block, because the job's process has nothing else to do. The channel is thread-safe,
because a handler may start threads. The worker's end is in job_process.py.
"""

import marshal
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from os import read, write
from threading import Lock, get_ident
from typing import Any, TypeVar
from uuid import UUID

import orjson

from jobforge import errors
from jobforge.errors import Invalid, JobForgeError, Json
from jobforge.redact import register_secret
from jobforge.sdk.outcome_exceptions import Cancelled
from jobforge.sdk.worker_requests import (
    AddNodes,
    AddToBatch,
    CloseBatch,
    CreateBatch,
    EnqueueChildren,
    EnqueueJobs,
    EnqueueWorkflow,
    LoadParents,
    SaveStep,
    WorkerRequest,
)
from jobforge.types.jobs import ClaimedJob, JobRequest
from jobforge.types.jsonb import decode, encode, replace_unencodable
from jobforge.types.workflows import BatchRequest, WorkflowRequest
from jobforge.worker.isolation.frames import FrameDecoder, FrameKind, encode_frame, split_document

# Exit code for a failure of JobForge, not of the job (sysexits.h).
EX_SOFTWARE = 70

T = TypeVar("T")

_READ = 65_536
_LONGEST_PAYLOAD_IN_FRAME = 1024**2
# The worker buffers notes until they are stored. Context cuts each value at 64 KiB.
MAX_NOTE_BYTES = 1024**2


class SocketChannel:
    """The channel of a job's process.

    A stop signal that arrives while `is_busy` sets `was_interrupted`; the channel raises Cancelled
    after the exchange. The socket is a bare descriptor, because a socket object is more pages for a
    fork to copy.
    """

    __slots__ = (
        *("_control", "_frames", "_lock", "_main", "_tenant_id"),
        *("is_busy", "was_interrupted"),
    )

    def __init__(self, control: int) -> None:
        self._control = control
        self._frames = FrameDecoder()
        self._lock = Lock()
        self._main = get_ident()
        self._tenant_id: UUID
        self.is_busy = False
        self.was_interrupted = False

    def receive_job(self) -> tuple[ClaimedJob, UUID | None]:
        payload: list[bytes] = []
        # marshal touches the fewest pages, and both ends run the same Python.
        (tenant_id, job_id, *fields), worker_id = marshal.loads(  # noqa: S302 - from the worker
            self._receive(FrameKind.RUN, payload)
        )
        job = ClaimedJob(UUID(bytes=tenant_id), UUID(bytes=job_id), *fields)
        if payload:
            job = job._replace(payload_json=b"".join(payload).decode())
        self._tenant_id = job.tenant_id
        return job, worker_id and UUID(bytes=worker_id)

    @property
    def tenant_id(self) -> UUID:
        return self._tenant_id

    def note(self, kind: str, data: dict[str, Json]) -> None:
        said = {"kind": kind, "data": data}
        try:
            body = orjson.dumps(said, default=str)
        except TypeError:  # a lone surrogate, as in a file name that is not valid UTF-8
            body = orjson.dumps(replace_unencodable(said))
        self._send_limited(FrameKind.NOTE, body)

    def send_span(self, body: bytes) -> None:
        self._send_limited(FrameKind.SPAN, body)

    def secret(self, name: str) -> str:
        value = self.request(GetSecret(name))
        register_secret(value)
        return value

    def request(self, request: WorkerRequest[T]) -> T:
        frame = encode_request(request)
        answer = decode(self._run_uninterrupted(partial(self._exchange, frame)))
        if "error" in answer:
            raise _parse_error(answer["error"])
        return request.read_answer(answer["value"])

    async def request_async(self, request: WorkerRequest[T]) -> T:
        return self.request(request)

    def send(self, kind: FrameKind, body: bytes) -> None:
        self._run_uninterrupted(partial(self._write, encode_frame(kind, body)))

    def send_document(self, kind: FrameKind, document: bytes) -> None:
        self._run_uninterrupted(partial(self._send_pieces, kind, document))

    def _send_pieces(self, kind: FrameKind, document: bytes) -> None:
        for piece in split_document(kind, document):
            self._write(piece)

    def _send_limited(self, kind: FrameKind, body: bytes) -> None:
        if len(body) > MAX_NOTE_BYTES:
            raise Invalid(f"The message of {len(body):,} bytes is too large", field="data")
        self.send(kind, body)

    def _exchange(self, request: bytes) -> bytes:
        self._write(request)
        return self._receive(FrameKind.RESPONSE)

    def _receive(self, expected: FrameKind, payload: list[bytes] | None = None) -> bytes:
        while data := read(self._control, _READ):
            for kind, body in self._frames.feed(data):
                if kind is expected:
                    return body
                if kind is FrameKind.PAYLOAD and payload is not None:
                    payload.append(body)
        # The worker has closed the socket, so the outcome cannot be reported any more.
        os._exit(EX_SOFTWARE)

    def _write(self, data: bytes) -> None:
        sent = write(self._control, data)
        while sent < len(data):
            data = data[sent:]
            sent = write(self._control, data)

    def _run_uninterrupted(self, exchange: Callable[[], T]) -> T:
        """Run the exchange; raise Cancelled only afterwards, because a partial frame is invalid."""
        is_main = get_ident() == self._main
        with self._lock:
            self.is_busy = is_main
            try:
                result = exchange()
            finally:
                self.is_busy = False
        if is_main and self.was_interrupted:
            self.was_interrupted = False
            raise Cancelled("The job was asked to stop")
        return result


@dataclass(frozen=True, slots=True)
class GetSecret(WorkerRequest[str]):
    """Return a secret of the worker. Other channels look it up in their own process."""

    kind = "secret"

    name: str

    def read_answer(self, answer: Json) -> str:
        return str(answer)


def encode_request(request: WorkerRequest[Any]) -> bytes:
    members = {field.name: _to_json(getattr(request, field.name)) for field in fields(request)}
    document = {"kind": request.kind, **members}
    return encode_frame(FrameKind.REQUEST, encode(document, "jobs").encode())


def _to_json(value: Any) -> Json:  # noqa: ANN401 - a field of any request
    match value:
        case JobRequest() | WorkflowRequest() | BatchRequest():
            return value.to_json()
        case [JobRequest(), *_]:
            return [job.to_json() for job in value]
    return value


def decode_request(body: bytes) -> WorkerRequest[Any]:
    """Return the request in a frame of a job, which may have written anything into it.

    The engine checks the members of jobs, nodes, workflows and batches, in a call for this job
    alone.
    """
    document = _require_type(dict, decode(body))
    kind = _REQUESTS.get(str(document.get("kind")))
    if kind is None:
        raise Invalid("Unknown kind of request", field="kind")
    members = [_READERS[field.type](document.get(field.name)) for field in fields(kind)]
    request: WorkerRequest[Any] = kind(*members)
    return request


def _require_type(kind: type[T], value: Json) -> T:
    if not isinstance(value, kind):
        raise Invalid(f"A member of the request must be of type {kind.__name__}")
    return value


def _read_jobs(documents: Json) -> list[JobRequest]:
    return [_read_job(document) for document in _require_type(list, documents)]


def _read_job(document: dict[str, Json]) -> JobRequest:
    for name in {"run_at", "expires_at"} & document.keys():
        document[name] = datetime.fromisoformat(document[name])
    return JobRequest(**document)


_REQUESTS: dict[str, Any] = {
    request.kind: request
    for request in (
        *(SaveStep, EnqueueChildren, EnqueueJobs, LoadParents, AddNodes, EnqueueWorkflow),
        *(CreateBatch, AddToBatch, CloseBatch, GetSecret),
    )
}
# By the types of the fields of all requests.
_READERS: dict[Any, Callable[[Json], Any]] = {
    str: partial(_require_type, str),
    int: partial(_require_type, int),
    Json: lambda value: value,
    UUID: UUID,
    Sequence[JobRequest]: _read_jobs,
    Sequence[Mapping[str, Json]]: partial(_require_type, list),
    WorkflowRequest: lambda document: WorkflowRequest(**document),
    BatchRequest: lambda document: BatchRequest(**document),
}


# The worker's encoders and decoders for the same frames.


def encode_job(job: ClaimedJob, worker_id: UUID | None) -> bytes:
    """Encode the RUN frame; a payload over 1 MiB goes before it, in PAYLOAD frames."""
    if len(job.payload_json) <= _LONGEST_PAYLOAD_IN_FRAME:
        return _encode_job_frame(job, worker_id)
    payload = split_document(FrameKind.PAYLOAD, job.payload_json.encode())
    return b"".join([*payload, _encode_job_frame(job._replace(payload_json=""), worker_id)])


def _encode_job_frame(job: ClaimedJob, worker_id: UUID | None) -> bytes:
    fields: Json = (job.tenant_id.bytes, job.job_id.bytes, *job[2:])
    return encode_frame(
        FrameKind.RUN, marshal.dumps((fields, worker_id.bytes if worker_id else None))
    )


def encode_response(value: Json) -> bytes:
    # Named tuples, such as Enqueued, become lists.
    return encode_frame(FrameKind.RESPONSE, orjson.dumps({"value": value}, default=tuple))


def encode_error(error: Exception) -> bytes:
    fields: dict[str, Json] = {"type": type(error).__name__, "message": str(error)}
    for name in ("field", "detail", "hint"):
        fields[name] = getattr(error, name, None)
    return encode_frame(FrameKind.RESPONSE, orjson.dumps({"error": fields}, default=str))


def _parse_error(document: dict[str, Json]) -> JobForgeError:
    kind = getattr(errors, document["type"], None)
    if not (isinstance(kind, type) and issubclass(kind, JobForgeError)):
        return JobForgeError(f"{document['type']}: {document['message']}")
    fields = {name: document[name] for name in ("field", "detail", "hint")}
    return kind(document["message"], **fields)
