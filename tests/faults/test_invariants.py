"""The invariants have teeth: a run that breaks one of them is found out."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from faults import invariants
from faults.invariants import Evidence, Overlap
from faults.oracle import Oracle, Run
from faults.scenario import Trial
from sql.engine import claim, complete, definition, enqueue, new_worker

JOB, OTHER = sorted([uuid4(), uuid4()])

# Two jobs; the first lost its lease while its handler lived, and ran again.
SOUND = Evidence(
    acknowledged=frozenset([JOB, OTHER]),
    states={JOB: "succeeded", OTHER: "succeeded"},
    outcomes={(JOB, 1): "lease_lost", (JOB, 2): "succeeded", (OTHER, 3): "succeeded"},
    granted=frozenset([(JOB, 1), (JOB, 2), (OTHER, 3)]),
    runs={
        (JOB, 1): Run(10.0, 13.0),
        (JOB, 2): Run(12.5, 14.0, came_to_its_end=True),
        (OTHER, 3): Run(10.0, 11.0, came_to_its_end=True),
    },
)
LOST = UUID(int=7)

RULES = [
    (
        invariants.i1_no_acknowledged_job_is_lost,
        replace(SOUND, acknowledged=SOUND.acknowledged | {LOST}),
    ),
    (invariants.i2_no_job_is_invented, replace(SOUND, acknowledged=frozenset([JOB]))),
    (
        invariants.i3_every_job_has_succeeded,
        replace(SOUND, states={**SOUND.states, OTHER: "running"}),
    ),
    (
        invariants.i5_every_job_has_one_success,
        replace(SOUND, outcomes={**SOUND.outcomes, (JOB, 1): "succeeded"}),
    ),
    (
        invariants.i6_a_success_was_lived_to_its_end,
        replace(SOUND, runs={**SOUND.runs, (OTHER, 3): Run(10.0, 11.0)}),
    ),
    (
        invariants.i7_later_handlers_have_greater_leases,
        replace(SOUND, runs={**SOUND.runs, (JOB, 2): Run(9.0, 14.0, came_to_its_end=True)}),
    ),
    (
        invariants.i10_handlers_ran_under_granted_leases_only,
        replace(SOUND, granted=SOUND.granted - {(OTHER, 3)}),
    ),
    (
        invariants.i12_two_handlers_of_a_job_meet_only_when_a_lease_was_lost,
        replace(SOUND, outcomes={**SOUND.outcomes, (JOB, 1): "released"}),
    ),
]


@pytest.mark.parametrize(("rule", "broken"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_a_broken_rule_is_found(rule: invariants.Rule, broken: Evidence) -> None:
    assert rule(SOUND) == []
    assert rule(broken)


def test_an_overlap_is_as_long_as_both_were_seen_at_work() -> None:
    assert invariants.overlaps(SOUND) == [Overlap(JOB, 1, 2, 0.5)]


@pytest.fixture
def watched(database: Database, folder: Path) -> Iterator[Trial]:
    made = Trial(database, folder)
    definition(made.conn)
    yield made
    made.close()


def test_the_evidence_of_a_run_is_gathered_from_all_three_witnesses(watched: Trial) -> None:
    conn, oracle = watched.conn, watched.oracle
    oracle.acknowledge(enqueue(conn, n=1))
    _run(conn, oracle)
    watched.check()


def test_a_success_without_a_handler_is_found(watched: Trial) -> None:
    conn, worker = watched.conn, new_worker()
    watched.oracle.acknowledge(enqueue(conn, n=1))
    complete(conn, worker, claim(conn, worker))
    with pytest.raises(AssertionError, match="i6_a_success_was_lived_to_its_end"):
        watched.check()


def test_a_job_that_is_gone_is_found(watched: Trial) -> None:
    watched.oracle.acknowledge(enqueue(watched.conn, n=1))
    _run(watched.conn, watched.oracle)
    watched.oracle.acknowledge([LOST])
    with pytest.raises(AssertionError, match="i1_no_acknowledged_job_is_lost"):
        watched.check()


def _run(conn: Connection, oracle: Oracle) -> None:
    worker = new_worker()
    [job] = claim(conn, worker)
    with oracle.marks_file.open("a") as marks:
        for what in ("enter", "exit"):
            marks.write(f"{job['job_id']} {job['lease']} {what} 1 1.0\n")
    complete(conn, worker, [job])
