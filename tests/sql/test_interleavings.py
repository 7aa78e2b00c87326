"""Two and three concurrent sessions, with their steps in any order: the invariants hold after each.

Some sessions are applications: their transactions stay open until all others are done, or have
taken their snapshot, at REPEATABLE READ or SERIALIZABLE, before the others acted.

All pairs run, and a seeded sample of the triples, each with a sample of its orders. JOBFORGE_LONG=1
runs all orders of all pairs, and up to 90 orders of all triples; JOBFORGE_SEED picks another
sample. A failure names the sessions and the order.
"""

import os
import random
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import pytest
from cluster import Connect, Connection
from sql.concurrency_scenarios import World, scripts
from sql.interleaver import Interleaver, Script, orders
from sql.mutation import mutate

LONG = "JOBFORGE_LONG" in os.environ
SEED = int(os.environ.get("JOBFORGE_SEED", "20261115"))
SAMPLED_TRIPLES = 20
SAMPLED_ORDERS = 3
# The number of orders per pair with an application's transaction; there are many such pairs.
SAMPLED_ORDERS_OF_APPLICATIONS = 3
SHARDS = 10
# The number of orders of three sessions with two steps each. Longer ones have up to 1,680.
ORDERS_OF_LONG_TRIPLES = 90

# Listed here and not taken from the world, because pytest needs the names of tests before there is
# a database.
KINDS = (
    "claim",
    "capped claim",
    "capped claim that is rolled back",
    "success",
    "success that is rolled back",
    "plain success",
    "plain success that is rolled back",
    "success, then capped claim",
    "failure",
    "last failure",
    "release",
    "heartbeat",
    "reap",
    "cancel of the held job",
    "cancel of the ready job",
    "cancel of all jobs",
    "enqueue under a taken key",
    "replacement under a taken key",
    "enqueue under a free key",
    "retry of the dead job",
    "retry of the failed job",
    "retry of all dead jobs",
    "change of the capped definition",
    "enqueue after the held job, left open",
    "enqueue after the ready job, left open",
    "cancel of the held job, left open",
    "cancel of the ready job, left open",
    "edit of the ready job, left open",
    "enqueue under a free key, left open",
    "change of the capped definition, left open",
    "cancel of all jobs, left open",
    "edit of the ready job at repeatable read",
    "enqueue under a taken key at repeatable read",
    "replacement under a taken key at serializable",
    "enqueue under a free key at serializable",
    "enqueue after the held job at repeatable read",
    "cancel of the ready job at repeatable read",
    "success at serializable",
    "cancel of the held job at serializable",
    "retry of the dead job at repeatable read",
    "edit of the ready job at serializable, left open",
    "enqueue under a free key at repeatable read, left open",
)
# Transactions of applications: left open, or with an older snapshot. They come last.
APPLICATIONS = KINDS[KINDS.index("enqueue after the held job, left open") :]


class Arena(NamedTuple):
    world: World
    scripts: dict[str, Script]
    interleaver: Interleaver

    def play(self, names: Sequence[str], schedule: Sequence[int]) -> None:
        self.world.restore()
        chosen = [self.scripts[name] for name in names]
        try:
            outcomes = self.interleaver.run(chosen, schedule, self.world.check_cap)
            self.world.check(outcomes)
        except BaseException as error:
            error.add_note(f"sessions: {dict(enumerate(names))}, order: {schedule}, seed: {SEED}")
            raise

    def orders(self, names: Sequence[str]) -> list[tuple[int, ...]]:
        return orders([self.scripts[name] for name in names])


@pytest.fixture
def arena(connect: Connect) -> Iterator[Arena]:
    world = World(connect(), restorer=connect())
    interleaver = Interleaver(connect(), [connect(autocommit=False) for _ in range(3)])
    yield Arena(world, scripts(world), interleaver)
    interleaver.close()


def test_every_session_of_the_world_is_in_the_list(arena: Arena) -> None:
    assert tuple(arena.scripts) == KINDS


@pytest.mark.parametrize("first", KINDS)
def test_no_order_of_two_sessions_breaks_an_invariant(arena: Arena, first: str) -> None:
    chance = random.Random(f"{SEED}/{first}")  # noqa: S311 - repeatable, not secret
    for second in KINDS[KINDS.index(first) :]:
        schedules = arena.orders([first, second])
        if not LONG:
            wanted = SAMPLED_ORDERS_OF_APPLICATIONS if second in APPLICATIONS else SAMPLED_ORDERS
            schedules = chance.sample(schedules, min(wanted, len(schedules)))
        for schedule in schedules:
            arena.play([first, second], schedule)


def test_without_the_check_of_the_isolation_level_a_job_stays_blocked(
    arena: Arena, conn: Connection
) -> None:
    mutate(conn, "require_read_committed", "in ('repeatable read', 'serializable')", "= ''")
    names = ["success", "cancel of the ready job at repeatable read"]
    faults = [_fault(arena, names, schedule) for schedule in arena.orders(names)]
    found = [fault for fault in faults if fault is not None]
    assert 0 < len(found) < len(faults)
    assert all("blocked jobs wait for finished jobs" in fault for fault in found)


def _fault(arena: Arena, names: Sequence[str], schedule: Sequence[int]) -> str | None:
    try:
        arena.play(names, schedule)
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.skipif(LONG, reason="all triples run instead")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_sampled_orders_of_three_sessions_break_no_invariant(arena: Arena, shard: int) -> None:
    chance = random.Random(f"{SEED}/{shard}")  # noqa: S311 - repeatable, not secret
    triples = list(combinations_with_replacement(KINDS, 3))
    for names in chance.sample(triples, SAMPLED_TRIPLES // SHARDS):
        schedules = arena.orders(names)
        for schedule in chance.sample(schedules, min(8, len(schedules))):
            arena.play(names, schedule)


@pytest.mark.skipif(not LONG, reason="runs for hours; JOBFORGE_LONG=1 asks for it")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", KINDS)
def test_no_order_of_three_sessions_breaks_an_invariant(arena: Arena, first: str) -> None:
    chance = random.Random(f"{SEED}/{first}")  # noqa: S311 - repeatable, not secret
    for names in combinations_with_replacement(KINDS[KINDS.index(first) :], 3):
        if names[0] == first:
            schedules = arena.orders(names)
            if len(schedules) > ORDERS_OF_LONG_TRIPLES:
                schedules = chance.sample(schedules, ORDERS_OF_LONG_TRIPLES)
            for schedule in schedules:
                arena.play(names, schedule)
