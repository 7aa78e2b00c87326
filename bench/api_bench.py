"""The scene of the bench of the HTTP API: the servers, our side on it, and the counts of a run."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import http_server
from bench_servers import BenchServers
from compared_side import Side

T = TypeVar("T")

TENANT = UUID(int=1)


@dataclass(frozen=True, slots=True)
class Size:
    """The counts of a run."""

    rounds: int
    clients: tuple[int, ...]
    single: int  # requests of all clients in a round
    batches: int
    batch: int
    small: int
    large: int
    pages: int  # of each kind in a round
    far: int  # pages before the one that is far down
    streams: int
    tenants: int
    bustle: int  # jobs that run each time
    times: int
    workers: int


FULL = Size(
    rounds=5,
    clients=(1, 16),
    single=4_800,
    batches=30,
    batch=1_000,
    small=10_000,
    large=1_000_000,
    pages=100,
    far=50,
    streams=500,
    tenants=5,
    bustle=2_000,
    times=3,
    workers=8,
)
QUICK = Size(
    rounds=1,
    clients=(1, 16),
    single=48,
    batches=2,
    batch=100,
    small=200,
    large=1_000,
    pages=5,
    far=2,
    streams=20,
    tenants=2,
    bustle=30,
    times=2,
    workers=4,
)


@dataclass(frozen=True, slots=True)
class ApiBench:
    """Where it is measured, and how much."""

    servers: BenchServers
    side: Side
    size: Size

    def start_server(self) -> AbstractContextManager[http_server.RunningServer]:
        return http_server.start_server(self.servers, self.side)


def alternate(sides: tuple[T, T], number: int) -> tuple[T, T]:
    """The other way round in every other round."""
    first, second = sides
    return (second, first) if number % 2 else (first, second)
