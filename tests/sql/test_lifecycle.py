"""The state machine as a table: every state, every function that changes a job, and the result.

A word of STATES is the state of the job afterwards, and the function's result. Otherwise the job
is unchanged in all columns, and the function returns:
    -      nothing: no row, or a count of 0
    lost   this token was never granted, or is not the current one
    again  ok: the token's lease has already ended in the same way
    ok, cancel   the answer to a heartbeat
    new job      another job is created from this one
    JF0xx        that error
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from cluster import Clock, Connection
from sql.engine import Row, definition
from sql.lifecycle_actions import ACTIONS, Subject, act, prepare

STATES = {"scheduled", "blocked", "queued", "running", "canceling", "succeeded", "canceled", "dead"}

# Both tables are in docs/lifecycle.md. `retrying` is scheduled again after a failed attempt;
# `canceled` was never claimed.
WAITING_AND_ENDED = """
| Call | scheduled | retrying | blocked | queued | succeeded | canceled | dead |
|---|---|---|---|---|---|---|---|
| `claim` | - | - | - | running | - | - | - |
| `claim` when due | running | running | - | running | - | - | - |
| `claim` when job expired | canceled | running | - | canceled | - | - | - |
| `heartbeat_jobs` | lost | lost | lost | lost | lost | lost | lost |
| `heartbeat_job` | JF003 | JF003 | JF003 | JF003 | JF003 | JF003 | JF003 |
| `complete` succeeded | lost | lost | lost | lost | repeated | lost | lost |
| `complete` failed | lost | repeated | lost | lost | lost | lost | repeated |
| `complete` failed permanently | lost | repeated | lost | lost | lost | lost | repeated |
| `complete` timed_out | lost | lost | lost | lost | lost | lost | lost |
| `complete` crashed | lost | lost | lost | lost | lost | lost | lost |
| `complete` canceled | lost | lost | lost | lost | lost | lost | lost |
| `complete` snoozed | lost | lost | lost | lost | lost | lost | lost |
| `complete` released | lost | lost | lost | lost | lost | lost | lost |
| `complete` (unknown outcome) | lost | repeated | lost | lost | lost | lost | repeated |
| `complete_job` | JF003 | JF003 | JF003 | JF003 | repeated | JF003 | JF003 |
| `release_jobs` | lost | lost | lost | lost | lost | lost | lost |
| `reap_jobs` | - | - | - | - | - | - | - |
| `reap_jobs` when lease expired | - | - | - | - | - | - | - |
| `reap_jobs` when job expired | canceled | - | canceled | canceled | - | - | - |
| `cancel_job` | canceled | canceled | canceled | canceled | JF005 | canceled | canceled |
| `cancel_jobs` | canceled | canceled | canceled | canceled | - | - | canceled |
| `reschedule_job` | scheduled | scheduled | blocked | scheduled | JF005 | JF005 | JF005 |
| `reschedule_job` to now | queued | queued | blocked | queued | JF005 | JF005 | JF005 |
| `edit_job` | scheduled | scheduled | blocked | queued | JF005 | JF005 | JF005 |
| `retry_job` | JF005 | queued | JF005 | JF005 | new job | new job | queued |
| `retry_jobs` | - | - | - | - | - | - | queued |
"""

# `last attempt` runs with the last attempt of its allowance. `outcome` is the outcome of the
# attempt that is recorded afterwards; an attempt that was released or snoozed is not counted.
HELD = """
| Call | running | last attempt | canceling | outcome |
|---|---|---|---|---|
| `claim` | - | - | - | - |
| `claim` when due | - | - | - | - |
| `claim` when job expired | - | - | - | - |
| `heartbeat_jobs` | ok | ok | cancel | - |
| `heartbeat_job` | ok | ok | cancel | - |
| `complete` succeeded | succeeded | succeeded | succeeded | succeeded |
| `complete` failed | scheduled | dead | canceled | failed |
| `complete` failed permanently | dead | dead | canceled | failed |
| `complete` timed_out | scheduled | dead | canceled | timed_out |
| `complete` crashed | scheduled | dead | canceled | crashed |
| `complete` canceled | canceled | canceled | canceled | canceled |
| `complete` snoozed | scheduled | scheduled | canceled | snoozed |
| `complete` released | queued | queued | canceled | released |
| `complete` (unknown outcome) | dead | dead | canceled | failed |
| `complete_job` | succeeded | succeeded | succeeded | succeeded |
| `release_jobs` | queued | queued | canceled | released |
| `reap_jobs` | - | - | - | - |
| `reap_jobs` when lease expired | scheduled | dead | canceled | lease_lost |
| `reap_jobs` when job expired | scheduled | dead | canceled | lease_lost |
| `cancel_job` | canceling | canceling | canceling | - |
| `cancel_jobs` | canceling | canceling | - | - |
| `reschedule_job` | JF005 | JF005 | JF005 | - |
| `reschedule_job` to now | JF005 | JF005 | JF005 | - |
| `edit_job` | JF005 | JF005 | JF005 | - |
| `retry_job` | JF005 | JF005 | JF005 | - |
| `retry_jobs` | - | - | - | - |
"""


@dataclass(frozen=True, slots=True)
class Case:
    action: str
    start: str
    expected: str
    outcome: str = "-"


def _read(table: str) -> Iterator[Case]:
    heading, _, *lines = table.replace("`", "").strip().splitlines()
    for line in lines:
        row = dict(zip(_cells(heading), _cells(line), strict=True))
        action, outcome = row.pop("Call"), row.pop("outcome", "-")
        for start, expected in row.items():
            yield Case(action, start, expected, outcome)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


CASES = [*_read(WAITING_AND_ENDED), *_read(HELD)]


@pytest.fixture(scope="module")
def conn(shared_conn: Connection) -> Connection:
    # A backoff base of a minute keeps a failed job waiting while its case is checked.
    definition(shared_conn, max_attempts=2, backoff_base_s=60)
    return shared_conn


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.action}-{case.start}")
def test_the_table_of_states_and_functions_is_correct(
    conn: Connection, shared_clock: Clock, case: Case
) -> None:
    subject = prepare(conn, shared_clock, case.start)
    before, attempts_before = subject.row(), subject.attempts()

    answer = act(case.action, subject)

    assert answer == case.expected
    if case.expected in STATES:
        assert subject.state() == case.expected
    elif not case.action.startswith("heartbeat"):
        assert subject.row() == before
    if case.start in {"succeeded", "canceled"}:
        assert subject.row() == before, "terminal is final"
    _assert_attempts(case, subject, before, attempts_before)


def _assert_attempts(case: Case, subject: Subject, before: Row, attempts: list[Row]) -> None:
    """Every ended lease leaves exactly one row, and only a claim and its reversal change the
    count."""
    added = subject.attempts()[len(attempts) :]
    ended = case.outcome != "-"
    assert [row["outcome"] for row in added] == ([case.outcome] if ended else [])
    for row in added:
        assert row["lease"] == subject.held["lease"]
        assert row["worker_id"] == subject.worker
        assert row["attempt"] == before["attempt"]
        assert row["started_at"] == before["started_at"]
    started = case.expected == "running"
    uncounted = case.outcome in {"released", "snoozed"}
    assert subject.row()["attempt"] == before["attempt"] + started - uncounted


def test_every_function_is_tried_on_every_state() -> None:
    starts = {"scheduled", "retrying", "blocked", "queued", "running", "last attempt", "canceling"}
    starts |= {"succeeded", "canceled", "dead"}
    assert {case.start for case in CASES} == starts
    assert {(case.action, case.start) for case in CASES} == {
        (action, start) for action in ACTIONS for start in starts
    }
