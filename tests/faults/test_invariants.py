"""The invariants detect violations: a run that breaks one of them fails its check."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from faults import invariants
from faults.invariants import Evidence, Overlap
from faults.oracle import HandlerRun, Oracle
from faults.scenario import Scenario
from sql.engine import claim, complete, definition, enqueue, new_worker

JOB, OTHER = sorted([uuid4(), uuid4()])

# Two jobs; the first lost its lease while its handler was running, and ran again.
SOUND = Evidence(
    acknowledged=frozenset([JOB, OTHER]),
    states={JOB: "succeeded", OTHER: "succeeded"},
    outcomes={(JOB, 1): "lease_lost", (JOB, 2): "succeeded", (OTHER, 3): "succeeded"},
    granted=frozenset([(JOB, 1), (JOB, 2), (OTHER, 3)]),
    runs={
        (JOB, 1): HandlerRun(10.0, 13.0),
        (JOB, 2): HandlerRun(12.5, 14.0, has_finished=True),
        (OTHER, 3): HandlerRun(10.0, 11.0, has_finished=True),
    },
)
LOST = UUID(int=7)

RULES = [
    (
        invariants.no_acknowledged_job_is_lost,
        replace(SOUND, acknowledged=SOUND.acknowledged | {LOST}),
    ),
    (invariants.no_job_is_invented, replace(SOUND, acknowledged=frozenset([JOB]))),
    (
        invariants.every_job_has_succeeded,
        replace(SOUND, states={**SOUND.states, OTHER: "running"}),
    ),
    (
        invariants.every_job_has_one_success,
        replace(SOUND, outcomes={**SOUND.outcomes, (JOB, 1): "succeeded"}),
    ),
    (
        invariants.the_handler_of_a_success_has_finished,
        replace(SOUND, runs={**SOUND.runs, (OTHER, 3): HandlerRun(10.0, 11.0)}),
    ),
    (
        invariants.later_handlers_have_greater_leases,
        replace(SOUND, runs={**SOUND.runs, (JOB, 2): HandlerRun(9.0, 14.0, has_finished=True)}),
    ),
    (
        invariants.handlers_ran_under_granted_leases_only,
        replace(SOUND, granted=SOUND.granted - {(OTHER, 3)}),
    ),
    (
        invariants.two_handlers_of_a_job_overlap_only_when_a_lease_was_lost,
        replace(SOUND, outcomes={**SOUND.outcomes, (JOB, 1): "released"}),
    ),
]


@pytest.mark.parametrize(("rule", "broken"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_a_broken_rule_is_reported(rule: invariants.Rule, broken: Evidence) -> None:
    assert rule(SOUND) == []
    assert rule(broken)


def test_an_overlap_lasts_as_long_as_both_handlers_were_seen_running() -> None:
    assert invariants.overlaps(SOUND) == [Overlap(JOB, 1, 2, 0.5)]


@pytest.fixture
def watched(database: Database, folder: Path) -> Iterator[Scenario]:
    created = Scenario(database, folder)
    definition(created.conn)
    yield created
    created.close()


def test_the_evidence_of_a_run_is_gathered_from_all_three_sources(watched: Scenario) -> None:
    conn, oracle = watched.conn, watched.oracle
    oracle.acknowledge(enqueue(conn, n=1))
    _run(conn, oracle)
    watched.check()


def test_a_success_without_a_handler_is_reported(watched: Scenario) -> None:
    conn, worker = watched.conn, new_worker()
    watched.oracle.acknowledge(enqueue(conn, n=1))
    complete(conn, worker, claim(conn, worker))
    with pytest.raises(AssertionError, match="the_handler_of_a_success_has_finished"):
        watched.check()


def test_a_missing_job_is_reported(watched: Scenario) -> None:
    watched.oracle.acknowledge(enqueue(watched.conn, n=1))
    _run(watched.conn, watched.oracle)
    watched.oracle.acknowledge([LOST])
    with pytest.raises(AssertionError, match="no_acknowledged_job_is_lost"):
        watched.check()


def _run(conn: Connection, oracle: Oracle) -> None:
    worker = new_worker()
    [job] = claim(conn, worker)
    with oracle.marks_file.open("a") as marks:
        for what in ("enter", "exit"):
            marks.write(f"{job['job_id']} {job['lease']} {what} 1 1.0\n")
    complete(conn, worker, [job])
