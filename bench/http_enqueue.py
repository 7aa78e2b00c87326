"""Enqueue rates over HTTP, compared with the same clients by SQL."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from api_bench import TENANT, ApiBench, alternate
from bench_servers import BenchError
from compared_side import HERE
from enqueue_clients import Plan, Transport
from http_server import RunningServer
from sql import Figure, ratio_figure

from jobforge.types.api_keys import Role

_LONGEST_S = 300


def single(bench: ApiBench) -> Iterator[Figure]:
    """Measure one job per request; a client waits for each response before the next request."""
    with bench.start_server() as server:
        for clients in bench.size.clients:
            requests = bench.size.single // clients
            pair = _compare(bench, server, clients=clients, requests=requests, jobs=1)
            name = f"one job a request, {clients} client{'s' * (clients > 1)}: HTTP, ratio to SQL"
            yield ratio_figure(name, pair.ratios, 0.6, pair.note)


def batch(bench: ApiBench) -> Iterator[Figure]:
    """Measure batches. Half of SQL's rate or 20,000 jobs per second is enough."""
    size = bench.size
    with bench.start_server() as server:
        pair = _compare(bench, server, clients=1, requests=size.batches, jobs=size.batch)
    name = f"{size.batch:,} jobs a request, 1 client: HTTP"
    ratio = ratio_figure(f"{name}, ratio to SQL", pair.ratios, 0.5, pair.note)
    rate = ratio_figure(f"{name}, jobs/s", pair.rates["http"], 20_000, f"{ratio.value:.2f} of SQL")
    yield max(ratio, rate, key=lambda each: each.value / each.target)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Jobs per second and the clients' share of CPU time, by transport and round."""

    rates: dict[Transport, list[float]] = field(default_factory=lambda: {"http": [], "sql": []})
    shares: dict[Transport, list[float]] = field(default_factory=lambda: {"http": [], "sql": []})

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
    transports: tuple[Transport, Transport] = ("http", "sql")
    for number in range(bench.size.rounds):
        for transport in alternate(transports, number):
            plan = Plan(
                transport, clients, requests, jobs, *server.address, key, server.login, str(TENANT)
            )
            bench.servers.admin.execute("checkpoint")
            answer = _run(plan)
            pair.rates[transport].append(clients * requests * jobs / answer["seconds"])
            pair.shares[transport].append(answer["cpu_seconds"] / answer["seconds"])
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
