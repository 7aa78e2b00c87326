"""Environment of the HTTP API benchmark: servers, the side to measure, and the counts of a run."""

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
    """Counts of a run."""

    rounds: int
    clients: tuple[int, ...]
    single: int  # requests per round, over all clients
    batches: int
    batch: int
    small: int
    large: int
    pages: int  # requests per round, for each kind of page
    deep_page: int  # number of pages before the one that is requested by its cursor
    streams: int
    tenants: int
    stream_jobs: int  # jobs per round of the stream workload
    stream_rounds: int
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
    deep_page=50,
    streams=500,
    tenants=5,
    stream_jobs=2_000,
    stream_rounds=3,
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
    deep_page=2,
    streams=20,
    tenants=2,
    stream_jobs=30,
    stream_rounds=2,
    workers=4,
)


@dataclass(frozen=True, slots=True)
class ApiBench:
    """Where a workload runs, and with which counts."""

    servers: BenchServers
    side: Side
    size: Size

    def start_server(self) -> AbstractContextManager[http_server.RunningServer]:
        return http_server.start_server(self.servers, self.side)


def alternate(sides: tuple[T, T], number: int) -> tuple[T, T]:
    """Return the two sides, in reverse order in every other round."""
    first, second = sides
    return (second, first) if number % 2 else (first, second)
