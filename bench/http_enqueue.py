"""Creation: how fast jobs are made over HTTP, beside the same clients with SQL."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from api_bench import TENANT, ApiBench, alternate
from bench_servers import BenchError
from compared_side import HERE
from enqueue_clients import Plan, Way
from http_server import RunningServer
from sql import Figure, ratio_figure

from jobforge.types.api_keys import Role

_LONGEST_S = 300


def single(bench: ApiBench) -> Iterator[Figure]:
    """One job a request; a client waits for its answer before it makes the next."""
    with bench.start_server() as server:
        for clients in bench.size.clients:
            requests = bench.size.single // clients
            pair = _compare(bench, server, clients=clients, requests=requests, jobs=1)
            name = f"one job a request, {clients} client{'s' * (clients > 1)}: HTTP, of SQL"
            yield ratio_figure(name, pair.ratios, 0.6, pair.note)


def batch(bench: ApiBench) -> Iterator[Figure]:
    """Either is enough: half of what SQL reaches, or 20,000 jobs per second."""
    size = bench.size
    with bench.start_server() as server:
        pair = _compare(bench, server, clients=1, requests=size.batches, jobs=size.batch)
    name = f"{size.batch:,} jobs a request, 1 client: HTTP"
    ratio = ratio_figure(f"{name}, of SQL", pair.ratios, 0.5, pair.note)
    rate = ratio_figure(f"{name}, jobs/s", pair.rates["http"], 20_000, f"{ratio.value:.2f} of SQL")
    yield max(ratio, rate, key=lambda each: each.value / each.target)


@dataclass(frozen=True, slots=True)
class _Pair:
    """By way and round: jobs per second, and the share of the time that clients computed."""

    rates: dict[Way, list[float]] = field(default_factory=lambda: {"http": [], "sql": []})
    shares: dict[Way, list[float]] = field(default_factory=lambda: {"http": [], "sql": []})

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.rates["http"], self.rates["sql"], strict=True)]

    @property
    def note(self) -> str:
        rates = " : ".join(f"{statistics.median(each):,.0f}" for each in self.rates.values())
        shares = " : ".join(f"{statistics.median(each):.0%}" for each in self.shares.values())
        return f"{rates} jobs/s, CPU of the clients {shares}"


def _compare(
    bench: ApiBench, server: RunningServer, *, clients: int, requests: int, jobs: int
) -> _Pair:
    pair = _Pair()
    key = server.create_key(TENANT, Role.TENANT_ADMIN)
    ways: tuple[Way, Way] = ("http", "sql")
    for number in range(bench.size.rounds):
        for way in alternate(ways, number):
            plan = Plan(
                way, clients, requests, jobs, *server.address, key, server.login, str(TENANT)
            )
            bench.servers.admin.execute("checkpoint")
            answer = _run(plan)
            pair.rates[way].append(clients * requests * jobs / answer["seconds"])
            pair.shares[way].append(answer["cpu_seconds"] / answer["seconds"])
    return pair


def _run(plan: Plan) -> dict[str, float]:
    result = subprocess.run(
        [sys.executable, str(HERE / "enqueue_clients.py")],
        input=plan.to_json(),
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    if result.returncode != 0:
        raise BenchError(f"clients failed: {result.stderr[-1000:]}")
    answer: dict[str, float] = json.loads(result.stdout)
    return answer
