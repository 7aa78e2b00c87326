"""What traces cost a worker: `make bench-tracing`.

Drains of the same backlog in turn, with traces and without, on one durable Postgres; a collector on
loopback takes what is sent and answers at once. Every job is recorded, as is the default, or one in
a hundred (OTEL_TRACES_SAMPLER=parentbased_traceidratio), as busy installations have it. `--quick`
runs all of it with tiny counts, to show that it works.
"""

import argparse
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median

from drain import drain_backlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from side import ours
from sql import Figure, line
from stage import Stage

_TARGET = 0.9
_RATIO = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    drain: int
    isolated: int


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    isolated: bool = False
    more: dict[str, str] = field(default_factory=dict)


FULL = Size(rounds=5, drain=40_000, isolated=1_000)
QUICK = Size(rounds=1, drain=200, isolated=10)
CASES = (
    Case("inline no-ops, one in a hundred recorded", more=_RATIO),
    Case("inline no-ops, all recorded"),
    Case("a process for each job, all recorded", isolated=True),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny counts: shows that it runs")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    figures = []
    with Stage() as stage:
        ours().install(stage)
        for case in CASES:
            figures.append(_measured(stage, size, case))
            print(line(figures[-1]), flush=True)
    return 0 if options.quick or all(figure.is_met for figure in figures) else 1


def _measured(stage: Stage, size: Size, case: Case) -> Figure:
    jobs = size.isolated if case.isolated else size.drain
    rates: dict[bool, list[float]] = {False: [], True: []}
    arrived = 0
    for number in range(size.rounds):
        for is_on in (False, True)[:: -1 if number % 2 else 1]:
            print(f"… {case.name}: {'on' if is_on else 'off'}", file=sys.stderr, flush=True)
            with _collecting() as bodies:
                more = case.more | {"OTEL_EXPORTER_OTLP_ENDPOINT": bodies.url} if is_on else {}
                rate, _ = drain_backlog(stage, ours(), jobs, isolated=case.isolated, more=more)
            rates[is_on].append(rate)
            arrived += bodies.spans
    ratios = [on / off for off, on in zip(rates[False], rates[True], strict=True)]
    off, on = (median(rates[is_on]) for is_on in (False, True))
    return Figure(
        f"drain with traces, of that without: {case.name}",
        median(ratios),
        _TARGET,
        max(ratios) - min(ratios),
        f"{off:,.0f} → {on:,.0f} jobs/s; by the end {arrived / size.rounds:,.0f} spans had arrived",
    )


@dataclass(slots=True)
class _Bodies:
    url: str
    received: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> int:
        """Counted afterwards: the worker needs the cores."""
        return sum(
            len(scope.spans)
            for body in self.received
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
        )


@contextmanager
def _collecting() -> Iterator[_Bodies]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            bodies.received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    bodies = _Bodies(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield bodies
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    sys.exit(main())
