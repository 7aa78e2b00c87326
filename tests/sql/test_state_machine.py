"""Random sequences of calls: after each call, the database agrees with the model.

JOBFORGE_LONG=1 runs longer sequences, with another seed each time.
"""

import os
from collections import Counter

import pytest
from cluster import Connection
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sql.engine import definition
from sql.job_model import BACKOFF_BASE_S, BACKOFF_CAP_S
from sql.ledger import Ledger
from sql.state_machine import Engine, stop_time

LONG = os.environ.get("JOBFORGE_LONG") == "1"

# Situations that every run must reach; a run reaches each dozens of times.
FACTS = [
    "reaped",
    "redriven",
    "retry: retried",
    "retry: new job",
    "retry: JF005",
    "cancel answers canceled",
    "cancel answers canceling",
    "heartbeat answers ok",
    "heartbeat answers lost",
    "complete answers ok None",
    "complete answers lost None",
    "complete answers ok succeeded",
    "complete answers ok canceled",
    "complete answers ok scheduled",
    "complete answers ok queued",
    "complete answers ok dead",
]


@pytest.mark.timeout(7200 if LONG else 600)
def test_the_database_agrees_with_the_model_after_every_step(conn: Connection) -> None:
    definition(
        conn,
        backoff_base_s=BACKOFF_BASE_S,
        backoff_cap_s=BACKOFF_CAP_S,
    )
    stop_time(conn)
    Engine.conn, Engine.ledger, Engine.seen = conn, Ledger(conn), Counter()

    run_state_machine_as_test(
        Engine,
        settings=settings(
            max_examples=1000 if LONG else 50,
            stateful_step_count=200 if LONG else 50,
            derandomize=not LONG,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            database=None,
            print_blob=True,
        ),
    )

    # A run that never reached these situations proves nothing.
    assert Engine.seen["steps"] >= 2000
    assert [fact for fact in FACTS if Engine.seen[fact] == 0] == [], Engine.seen
