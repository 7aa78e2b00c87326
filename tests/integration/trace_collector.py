"""A trace collector on loopback, and the spans that it received."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    """A span with hexadecimal IDs; `service` is the service that sent it."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    service: str
    attributes: dict[str, Any]


@dataclass(slots=True)
class TraceCollector:
    """`spans` are the received spans, ordered by name."""

    url: str
    requests: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[CollectedSpan]:
        found = [each for body in list(self.requests) for each in _read_spans(body)]
        return sorted(found, key=lambda each: each.name)


@contextmanager
def run_trace_collector() -> Iterator[TraceCollector]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    collector = _Handler.collectors[server] = TraceCollector(
        f"http://127.0.0.1:{server.server_port}"
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        del _Handler.collectors[server]


class _Handler(BaseHTTPRequestHandler):
    collectors: ClassVar[dict[Any, TraceCollector]] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        is_packed = self.headers.get("content-encoding") == "gzip"
        self.collectors[self.server].requests.append(gzip.decompress(body) if is_packed else body)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _read_spans(body: bytes) -> Iterator[CollectedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _values(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield CollectedSpan(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    service,
                    _values(span.attributes),
                )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
