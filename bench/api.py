"""Measure the cost of the HTTP API: `make bench-api`.

The benchmark starts one durable Postgres, `jobforge server` processes on loopback, and clients in a
separate process. Every figure about time is the ratio of two measurements that alternate, as the
median of several rounds, so that noise of the machine affects both. For the live stream, the
benchmark counts lost, duplicate and foreign messages; each count must be zero at any size.
`--quick` runs every workload with tiny counts, to check that the benchmark works.
"""

import argparse
import json
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import http_server
from api_bench import FULL, QUICK, ApiBench
from bench_servers import QUICK_SETTINGS, SETTINGS, BenchServers
from compared_side import jobforge_side, version_of
from http_enqueue import batch, single
from http_listing import pages
from http_stream import stream
from sql import Figure, format_figure

WORKLOADS: dict[str, Callable[[ApiBench], Iterator[Figure]]] = {
    "single": single,
    "batch": batch,
    "pages": pages,
    "stream": stream,
}


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and clients stop too
    figures = []
    with BenchServers(QUICK_SETTINGS if options.quick else SETTINGS) as servers:
        bench = ApiBench(servers, jobforge_side(), QUICK if options.quick else FULL)
        http_server.install_template(servers, bench.side)
        versions = _versions(bench)
        print(", ".join(f"{name} {number}" for name, number in versions.items()), flush=True)
        for name in options.workloads or WORKLOADS:
            print(f"… {name}", file=sys.stderr, flush=True)
            for result in WORKLOADS[name](bench):
                print(format_figure(result), flush=True)
                figures.append(result)
    if options.json:
        document = {
            "versions": versions,
            "size": asdict(bench.size),
            "figures": [asdict(result) for result in figures],
        }
        options.json.write_text(json.dumps(document, indent=2))
    considered = [result for result in figures if not options.quick or result.target == 0]
    return 0 if all(result.is_met for result in considered) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", choices=[*WORKLOADS, []], help="workloads to run (default: all)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny counts, to check that the benchmark works"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args()


def _versions(bench: ApiBench) -> dict[str, str]:
    (postgres,) = bench.servers.admin.execute("show server_version").fetchone() or ("?",)
    return {
        "Postgres": str(postgres),
        "Python": platform.python_version(),
        "jobforge": version_of(bench.side),
    }


if __name__ == "__main__":
    sys.exit(main())
