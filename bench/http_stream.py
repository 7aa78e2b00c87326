"""Live stream of the HTTP API: many clients listen while jobs run.

No client may miss a message, receive one twice, or receive a message of another tenant.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID, uuid4

from api_bench import ApiBench, Size
from bench_servers import BenchError
from compared_side import HERE
from http_server import RunningServer
from sql import Figure
from stream_load import StreamLoad

from jobforge.types.api_keys import Role

_SPARE_FILES = 15  # connections to the database that the server has opened in the meantime


def stream(bench: ApiBench) -> Iterator[Figure]:
    size = bench.size
    tenants = [uuid4() for _ in range(size.tenants)]
    file = bench.servers.folder / "expected.json"
    counts: dict[str, int] = {}
    with bench.start_server() as server:
        load = StreamLoad(server.database, server.login, tenants, size.workers)
        files, memory = server.open_files, [server.resident_mb]
        with _listening(server, tenants, size.streams) as listeners:
            memory.append(server.resident_mb)
            for _ in range(size.stream_rounds):
                load.run(size.stream_jobs)
                counts["expected"] = load.write_expected(file)
                counts |= listeners.send_line(str(file))
                memory.append(server.resident_mb)
        server.wait_until(lambda: server.open_files <= files + _SPARE_FILES, "close the streams")
        memory.append(server.resident_mb)
    yield from _fault_figures(size, counts)
    yield _memory_figure(size, memory)


def _fault_figures(size: Size, counts: dict[str, int]) -> Iterator[Figure]:
    jobs = size.stream_rounds * size.stream_jobs
    name = f"{size.streams} streams of {size.tenants} tenants, {jobs:,} jobs"
    note = (
        f"{counts['expected']:,} changes, {counts['received']:,} messages received, "
        f"{counts['cuts']} reconnects"
    )
    for what, label in (
        ("missed", "missed"),
        ("superfluous", "received twice, or never happened"),
        ("foreign", "of another tenant"),
    ):
        yield Figure(f"{name}: {label}", counts[what], 0, 0, note, lower_is_better=True)


def _memory_figure(size: Size, memory: list[float]) -> Figure:
    before, connected, first, *_, last, after = memory
    return Figure(
        f"server memory after {size.stream_rounds} times {size.stream_jobs:,} jobs, ratio to once",
        last / first,
        1.1,
        0,
        f"MB: {before:.0f}, connected {connected:.0f}, after the jobs {first:.0f} → {last:.0f}, "
        f"disconnected {after:.0f}",
        lower_is_better=True,
    )


@dataclass(frozen=True, slots=True)
class _Listeners:
    process: "subprocess.Popen[str]"

    def send_line(self, line: str) -> dict[str, int]:
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise BenchError("the listeners have no pipes")
        print(line, file=stdin, flush=True)
        answer = stdout.readline()
        if not answer:
            raise BenchError(f"the listeners exited with {self.process.wait()}")
        counts: dict[str, int] = json.loads(answer)
        return counts


@contextmanager
def _listening(server: RunningServer, tenants: list[UUID], streams: int) -> Iterator[_Listeners]:
    """Start the program with the listeners, and wait until all are connected."""
    keys = {str(tenant_id): server.create_key(tenant_id, Role.VIEWER) for tenant_id in tenants}
    accounts = [{"tenant": tenant, "key": key} for tenant, key in keys.items()]
    plan = [accounts[number % len(accounts)] for number in range(streams)]
    host, port = server.address
    with subprocess.Popen(
        [sys.executable, str(HERE / "stream_listeners.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            listeners = _Listeners(process)
            listeners.send_line(json.dumps({"host": host, "port": port, "listeners": plan}))
            yield listeners
        finally:
            process.terminate()
