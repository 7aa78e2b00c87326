"""Two and three sessions at once, in any order of their steps: the invariants hold after each.

All pairs are run, and a seeded sample of the triples; of each, a sample of its orders.
JOBFORGE_LONG=1 runs all orders of all, JOBFORGE_SEED picks another sample. A failure names the
sessions and the order.
"""

import os
import random
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import pytest
from cluster import Connect
from sql.contest import World, scripts
from sql.interleave import Interleaver, Script, interleavings

LONG = "JOBFORGE_LONG" in os.environ
SEED = int(os.environ.get("JOBFORGE_SEED", "20261115"))
SAMPLED_TRIPLES = 20
SAMPLED_ORDERS = 3
SHARDS = 10

# Named here, not taken from the world: a test's name must be known before there is a database.
KINDS = (
    "claim",
    "capped claim",
    "capped claim that is rolled back",
    "success",
    "success that is rolled back",
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
)


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
        return list(interleavings(*(len(self.scripts[name].steps) for name in names)))


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
        orders = arena.orders([first, second])
        if not LONG:
            orders = chance.sample(orders, min(SAMPLED_ORDERS, len(orders)))
        for schedule in orders:
            arena.play([first, second], schedule)


@pytest.mark.skipif(LONG, reason="all triples run instead")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_sampled_orders_of_three_sessions_break_no_invariant(arena: Arena, shard: int) -> None:
    chance = random.Random(f"{SEED}/{shard}")  # noqa: S311 - repeatable, not secret
    triples = list(combinations_with_replacement(KINDS, 3))
    for names in chance.sample(triples, SAMPLED_TRIPLES // SHARDS):
        for schedule in chance.sample(arena.orders(names), 8):
            arena.play(names, schedule)


@pytest.mark.skipif(not LONG, reason="runs for an hour; JOBFORGE_LONG=1 asks for it")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", KINDS)
def test_no_order_of_three_sessions_breaks_an_invariant(arena: Arena, first: str) -> None:
    for names in combinations_with_replacement(KINDS[KINDS.index(first) :], 3):
        if names[0] == first:
            for schedule in arena.orders(names):
                arena.play(names, schedule)
