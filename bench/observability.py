"""Measure the cost of metrics, logs and traces for a worker: `make bench-observability`.

Drains of the same backlog on one durable Postgres alternate between observability on and off.

- Metrics and logs: the worker's Prometheus port is scraped once a second, and the log level is the
  default. When off, there is no port, and the log has warnings only.
- Traces: a collector on loopback accepts all spans at once. Every job is recorded, which is the
  default, or one in a hundred (OTEL_TRACES_SAMPLER=parentbased_traceidratio), as in busy
  installations. Recording every job that does nothing has no target: its span takes longer than the
  job. Jobs that use 1 ms of CPU time have one.

`--only WORD` runs the cases whose name has that word. `--quick` runs tiny counts, to check that the
benchmark works.
"""

import argparse
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median

from bench_servers import BenchServers
from compared_side import jobforge_side
from drain import drain_backlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sql import Figure, format_figure

_SCRAPE_S = 1.0
_EXPORT_DELAY = {"OTEL_BSP_SCHEDULE_DELAY": "500"}  # so that spans are sent during the drain
_RATIO = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    drain: int
    isolated: int


@dataclass(slots=True)
class Observer:
    """Environment variables for the worker, and a summary of what was observed."""

    variables: dict[str, str]
    summarize: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    target: float
    observe: Callable[[], AbstractContextManager[Observer]]
    isolated: bool = False
    work_s: float = 0  # CPU time of each job


FULL = Size(rounds=11, drain=40_000, isolated=1_000)
QUICK = Size(rounds=1, drain=200, isolated=10)
_WORK_S = 0.001
_WORK_SHARE = 0.05  # of the jobs of a drain


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny counts, to check that it works")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="run only the cases whose name has this word"
    )
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    figures = []
    with BenchServers() as servers:
        jobforge_side().install(servers)
        for case in CASES:
            if options.only in case.name:
                figures.append(_measure(servers, size, case))
                print(format_figure(figures[-1]), flush=True)
    return 0 if options.quick or all(figure.is_met for figure in figures) else 1


def _measure(servers: BenchServers, size: Size, case: Case) -> Figure:
    jobs = size.isolated if case.isolated else size.drain
    if case.work_s and not case.isolated:
        jobs = round(jobs * _WORK_SHARE)
    work = {"BENCH_WORK_S": str(case.work_s)}
    rates: dict[bool, list[float]] = {False: [], True: []}
    summary = ""
    for number in range(size.rounds):
        for is_on in (False, True)[:: -1 if number % 2 else 1]:
            print(f"… {case.name}: {'on' if is_on else 'off'}", file=sys.stderr, flush=True)
            with case.observe() as observer:
                variables = {**work, **(observer.variables if is_on else {})}
                rate, _ = drain_backlog(
                    servers, jobforge_side(), jobs, isolated=case.isolated, extra_env=variables
                )
            rates[is_on].append(rate)
            if is_on:
                summary = observer.summarize()
    ratios = [on / off for off, on in zip(rates[False], rates[True], strict=True)]
    off, on = (median(rates[is_on]) for is_on in (False, True))
    return Figure(
        f"drain with observability, ratio to without: {case.name}",
        median(ratios),
        case.target,
        max(ratios) - min(ratios),
        f"{off:,.0f} → {on:,.0f} jobs/s; {summary}",
    )


@contextmanager
def _scraping() -> Iterator[Observer]:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    stopped = threading.Event()
    pages: list[bytes] = []

    def scrape() -> None:
        while not stopped.wait(_SCRAPE_S):
            with suppress(OSError):
                pages.append(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read())

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield Observer(
            {"JOBFORGE_METRICS_PORT": str(port), "JOBFORGE_LOG_LEVEL": "info"},
            lambda: f"{len(pages)} pages of metrics in the last round",
        )
    finally:
        stopped.set()
        thread.join()


@contextmanager
def _collecting(sampler: dict[str, str]) -> Iterator[Observer]:
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
    try:
        yield Observer(
            {**sampler, **endpoint, **_EXPORT_DELAY},
            lambda: f"{_spans(received):,} spans in the last round",
        )
    finally:
        server.shutdown()
        server.server_close()


def _spans(received: list[bytes]) -> int:
    """Count the spans after the drain, because the worker needs the cores during it."""
    return sum(
        len(scope.spans)
        for body in received
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
    )


CASES = (
    Case("metrics and logs, inline no-ops", 0.95, _scraping),
    Case("metrics and logs, a process for each job", 0.95, _scraping, isolated=True),
    Case("traces, inline no-ops, one in a hundred recorded", 0.97, partial(_collecting, _RATIO)),
    Case("traces, inline no-ops, all recorded", 0, partial(_collecting, {})),
    Case(
        "traces, inline jobs of 1 ms, all recorded", 0.9, partial(_collecting, {}), work_s=_WORK_S
    ),
    Case(
        "traces, a process for each job of 1 ms, all recorded",
        0.9,
        partial(_collecting, {}),
        isolated=True,
        work_s=_WORK_S,
    ),
)


if __name__ == "__main__":
    sys.exit(main())
