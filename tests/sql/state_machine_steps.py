"""The steps of the state machine, their frequency, and their arguments as Hypothesis strategies."""

from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from sql.engine import TENANT_A, TENANT_B

Call = tuple[str, dict[str, Any]]

QUEUES = ["one", "two"]
WORKERS = [UUID(int=n, version=4) for n in range(1, 4)]
OUTCOMES = ["succeeded", "failed", "timed_out", "crashed", "canceled", "snoozed", "released"]
STATES = ["dead", "scheduled", "running", "succeeded", "queued", "canceled"]

_tenant = st.sampled_from([TENANT_A, TENANT_B])
_worker = st.sampled_from(WORKERS)
_queue = st.sampled_from(QUEUES)
_pick = st.integers(0, 50)
_picks = st.lists(_pick, min_size=1, max_size=4)
_wanted = st.sampled_from(STATES)
_attempts = st.sampled_from([None, 1])
_mostly = st.sampled_from([True, True, True, False])
_seldom = st.sampled_from([False, False, False, True])

# The frequency of each step, and the strategies of its arguments.
STEPS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "enqueue": (
        2,
        {
            "tenant": _tenant,
            "n": st.integers(1, 3),
            "queue": _queue,
            "priority": st.sampled_from([0, 0, 5]),
            "delay_s": st.sampled_from([0, 0, 0, 10]),
            "expires_in_s": st.sampled_from([None, 20]),
            "max_attempts": st.integers(1, 3),
        },
    ),
    "claim": (6, {"worker": _worker, "queue": _queue, "limit": st.integers(1, 4)}),
    "heartbeat": (2, {"picks": _picks, "current": _mostly, "own": _mostly}),
    "complete": (
        6,
        {
            "picks": _picks,
            "current": _mostly,
            "outcomes": st.lists(st.sampled_from(OUTCOMES), min_size=4, max_size=4),
            "final": _seldom,
            "retry_in_s": st.sampled_from([None, None, 0, 15]),
        },
    ),
    "succeed": (2, {"picks": _picks, "current": _mostly}),
    "complete_as_another": (
        1,
        {"pick": _pick, "worker": _worker, "outcome": st.sampled_from(OUTCOMES)},
    ),
    "reap": (2, {}),
    "cancel": (2, {"pick": _pick, "wanted": _wanted}),
    "cancel_by_filter": (1, {"tenant": _tenant, "state": _wanted}),
    "reschedule": (1, {"pick": _pick, "wanted": _wanted, "delay_s": st.sampled_from([-5, 0, 10])}),
    "retry": (2, {"pick": _pick, "wanted": _wanted, "attempts": _attempts}),
    "redrive": (1, {"tenant": _tenant, "attempts": _attempts}),
    "travel": (3, {"seconds": st.sampled_from([1, 12, 25, 50])}),
}


def call_of(name: str) -> st.SearchStrategy[Call]:
    return st.tuples(st.just(name), st.fixed_dictionaries(STEPS[name][1]))


# One rule for all steps: with a rule for each step, Hypothesis disables most rules in most runs.
CALLS = st.sampled_from([name for name, (often, _) in STEPS.items() for _ in range(often)]).flatmap(
    call_of
)
