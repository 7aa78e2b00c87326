"""Streaming: many listen while jobs run. Nobody may miss anything, or hear of another tenant."""

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

_SPARE_FILES = 15  # the server's own: connections to the database that it has opened meanwhile


def stream(bench: ApiBench) -> Iterator[Figure]:
    size = bench.size
    tenants = [uuid4() for _ in range(size.tenants)]
    file = bench.servers.folder / "happened.json"
    counts: dict[str, int] = {}
    with bench.start_server() as server:
        bustle = StreamLoad(server.database, server.login, tenants, size.workers)
        files, memory = server.open_files, [server.resident_mb]
        with _listening(server, tenants, size.streams) as audience:
            memory.append(server.resident_mb)
            for _ in range(size.times):
                bustle.run(size.bustle)
                counts["happened"] = bustle.happened(file)
                counts |= audience.ask(str(file))
                memory.append(server.resident_mb)
        server.wait_until(lambda: server.open_files <= files + _SPARE_FILES, "let its clients go")
        memory.append(server.resident_mb)
    yield from _nothing_wrong(size, counts)
    yield _flat(size, memory)


def _nothing_wrong(size: Size, counts: dict[str, int]) -> Iterator[Figure]:
    name = f"{size.streams} streams of {size.tenants} tenants, {size.times * size.bustle:,} jobs"
    note = f"{counts['happened']:,} happened, {counts['heard']:,} were told, {counts['cuts']} cuts"
    for what, label in (
        ("missed", "missed"),
        ("too_many", "heard twice, or never happened"),
        ("foreign", "of another tenant"),
    ):
        yield Figure(f"{name}: {label}", counts[what], 0, 0, note, lower_is_better=True)


def _flat(size: Size, memory: list[float]) -> Figure:
    before, connected, first, *_, last, after = memory
    return Figure(
        f"memory of the server after {size.times} times {size.bustle:,} jobs, of that after one",
        last / first,
        1.1,
        0,
        f"MB: {before:.0f}, connected {connected:.0f}, after the jobs {first:.0f} → {last:.0f}, "
        f"disconnected {after:.0f}",
        lower_is_better=True,
    )


@dataclass(frozen=True, slots=True)
class _Audience:
    process: "subprocess.Popen[str]"

    def ask(self, line: str) -> dict[str, int]:
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise BenchError("the audience cannot be asked")
        print(line, file=stdin, flush=True)
        answer = stdout.readline()
        if not answer:
            raise BenchError(f"the audience has left: {self.process.wait()}")
        counts: dict[str, int] = json.loads(answer)
        return counts


@contextmanager
def _listening(server: RunningServer, tenants: list[UUID], streams: int) -> Iterator[_Audience]:
    """All of them connected, and told where they are."""
    keys = {str(tenant_id): server.create_key(tenant_id, Role.VIEWER) for tenant_id in tenants}
    listeners = [{"tenant": tenant, "key": key} for tenant, key in keys.items()]
    everybody = [listeners[number % len(listeners)] for number in range(streams)]
    host, port = server.address
    with subprocess.Popen(
        [sys.executable, str(HERE / "stream_listeners.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            audience = _Audience(process)
            audience.ask(json.dumps({"host": host, "port": port, "listeners": everybody}))
            yield audience
        finally:
            process.terminate()
