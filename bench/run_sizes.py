"""Counts and durations of a run: full, quick and tiny."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """Counts and durations of a run. A tuple has the points over which a figure is measured."""

    rounds: int
    drain: int
    bulk: int
    single: int
    clients: int
    latency: int
    steady_s: int
    isolated: int
    cancels: int
    recoveries: int
    lease_s: float
    idle_s: float
    memory: int
    backlogs: tuple[int, ...]
    first: int  # jobs of a backlog that are run
    histories: tuple[int, ...]
    tenants: tuple[int, ...]
    of_tenants: int
    flood: int
    flood_s: int
    held: int  # drains while one snapshot is open
    connections: tuple[int, ...]


FULL = Size(
    rounds=5,
    drain=20_000,
    bulk=20_000,
    single=2_000,
    clients=16,
    latency=70,
    steady_s=4,
    isolated=2_000,
    cancels=15,
    recoveries=3,
    lease_s=30,
    idle_s=15,
    memory=200_000,
    backlogs=(10_000, 100_000, 1_000_000),
    first=8_000,
    histories=(0, 100_000, 1_000_000, 10_000_000),
    tenants=(1, 100, 10_000),
    of_tenants=100_000,
    flood=200_000,
    flood_s=4,
    held=10,
    connections=(1, 2, 4, 8, 16, 32, 64),
)
QUICK = Size(
    rounds=2,
    drain=20_000,
    bulk=20_000,
    single=1_000,
    clients=16,
    latency=40,
    steady_s=3,
    isolated=400,
    cancels=3,
    recoveries=1,
    lease_s=5,
    idle_s=5,
    memory=40_000,
    backlogs=(10_000, 100_000),
    first=8_000,
    histories=(0, 100_000),
    tenants=(1, 1_000),
    of_tenants=20_000,
    flood=50_000,
    flood_s=1,
    held=4,
    connections=(1, 4, 16),
)
TINY = Size(
    rounds=1,
    drain=200,
    bulk=200,
    single=100,
    clients=1,
    latency=5,
    steady_s=1,
    isolated=20,
    cancels=1,
    recoveries=1,
    lease_s=1,
    idle_s=0.5,
    memory=2_000,
    backlogs=(200,),
    first=100,
    histories=(200,),
    tenants=(20,),
    of_tenants=200,
    flood=400,
    flood_s=1,
    held=1,
    connections=(1, 4),
)
