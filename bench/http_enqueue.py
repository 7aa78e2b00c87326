"""Creation: how fast jobs are made over HTTP, beside the same clients with SQL."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from api_bench import TENANT, Scene, in_turn
from bench_servers import Stuck
from compared_side import HERE
from enqueue_clients import Plan, Way
from http_server import Door
from sql import Figure, figure

from jobforge.types.api_keys import Role

_LONGEST_S = 300


def single(scene: Scene) -> Iterator[Figure]:
    """One job a request; a client waits for its answer before it makes the next."""
    with scene.opened() as door:
        for clients in scene.size.clients:
            requests = scene.size.single // clients
            pair = _compare(scene, door, clients=clients, requests=requests, jobs=1)
            name = f"one job a request, {clients} client{'s' * (clients > 1)}: HTTP, of SQL"
            yield figure(name, pair.ratios, 0.6, pair.note)


def batch(scene: Scene) -> Iterator[Figure]:
    """Either is enough: half of what SQL reaches, or 20,000 jobs per second."""
    size = scene.size
    with scene.opened() as door:
        pair = _compare(scene, door, clients=1, requests=size.batches, jobs=size.batch)
    name = f"{size.batch:,} jobs a request, 1 client: HTTP"
    ratio = figure(f"{name}, of SQL", pair.ratios, 0.5, pair.note)
    rate = figure(f"{name}, jobs/s", pair.rates["http"], 20_000, f"{ratio.value:.2f} of SQL")
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


def _compare(scene: Scene, door: Door, *, clients: int, requests: int, jobs: int) -> _Pair:
    pair = _Pair()
    key = door.make_key(TENANT, Role.TENANT_ADMIN)
    ways: tuple[Way, Way] = ("http", "sql")
    for number in range(scene.size.rounds):
        for way in in_turn(ways, number):
            plan = Plan(way, clients, requests, jobs, *door.address, key, door.login, str(TENANT))
            scene.stage.admin.execute("checkpoint")
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
        raise Stuck(f"clients failed: {result.stderr[-1000:]}")
    answer: dict[str, float] = json.loads(result.stdout)
    return answer
