"""The invariants of a run with any faults. docs/reliability.md lists them.

The engine's tables are compared with the oracle, which is independent of the engine, and with the
ledger, which a trigger wrote. Each rule returns its violations.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from cluster import Connection
from faults.oracle import HandlerRun, Oracle
from sql.ledger import Ledger

# A job ID and a lease.
Lease = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All records of a run, read after it."""

    acknowledged: frozenset[UUID]
    states: Mapping[UUID, str]
    outcomes: Mapping[Lease, str]  # of attempts
    granted: frozenset[Lease]  # according to the ledger
    runs: Mapping[Lease, HandlerRun]

    @classmethod
    def gather(cls, conn: Connection, oracle: Oracle) -> "Evidence":
        jobs = conn.execute("select id, state from jobforge.all_jobs").fetchall()
        attempts = conn.execute(
            "select job_id, lease, outcome from jobforge.all_attempts"
        ).fetchall()
        granted = conn.execute(
            "select job_id, lease from public.ledger where to_state = 'running'"
        ).fetchall()
        return cls(
            frozenset(oracle.acknowledged()),
            {row["id"]: row["state"] for row in jobs},
            {(row["job_id"], row["lease"]): row["outcome"] for row in attempts},
            frozenset((row["job_id"], row["lease"]) for row in granted),
            oracle.runs(),
        )


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two leases of one job whose handlers ran at the same time."""

    job: UUID
    earlier: int
    later: int
    seconds: float


def check(conn: Connection, oracle: Oracle, ledger: Ledger, *, claims_vanish: bool = False) -> None:
    """Fail with the violations of all rules.

    `claims_vanish`: a server crash may have lost the last claims.
    """
    ledger.check()
    evidence = Evidence.gather(conn, oracle)
    rules = [*_RULES, *([] if claims_vanish else _RULES_WITHOUT_SERVER_CRASHES)]
    broken = {rule.__name__: found for rule in rules if (found := rule(evidence))}
    assert not broken, broken


def overlaps(evidence: Evidence) -> list[Overlap]:
    """Return where the handler of an earlier lease still ran after that of a later one had
    started."""
    found = []
    for (job, earlier), (same, later) in pairwise(sorted(evidence.runs)):
        seconds = evidence.runs[job, earlier].last_seen - evidence.runs[same, later].entered
        if job == same and seconds > 0:
            found.append(Overlap(job, earlier, later, seconds))
    return found


def no_acknowledged_job_is_lost(evidence: Evidence) -> list[UUID]:
    return sorted(evidence.acknowledged - set(evidence.states))


def no_job_is_invented(evidence: Evidence) -> list[UUID]:
    """Producers repeat until they get a response, so every job is acknowledged in the end."""
    return sorted(set(evidence.states) - evidence.acknowledged)


def every_job_has_succeeded(evidence: Evidence) -> list[tuple[UUID, str]]:
    """Jobs of these runs fail a few times, but never permanently."""
    return [(job, state) for job, state in evidence.states.items() if state != "succeeded"]


def every_job_has_one_success(evidence: Evidence) -> list[UUID]:
    successes = Counter(
        job for (job, _), outcome in evidence.outcomes.items() if outcome == "succeeded"
    )
    return [job for job in evidence.states if successes[job] != 1]


def the_handler_of_a_success_has_finished(evidence: Evidence) -> list[Lease]:
    recorded = {lease for lease, outcome in evidence.outcomes.items() if outcome == "succeeded"}
    return sorted(recorded - {lease for lease, run in evidence.runs.items() if run.has_finished})


def later_handlers_have_greater_leases(evidence: Evidence) -> list[Lease]:
    return [
        (job, earlier)
        for (job, earlier), (same, later) in pairwise(sorted(evidence.runs))
        if job == same and evidence.runs[job, earlier].entered > evidence.runs[same, later].entered
    ]


def handlers_ran_under_granted_leases_only(evidence: Evidence) -> list[Lease]:
    return sorted(set(evidence.runs) - evidence.granted)


def two_handlers_of_a_job_overlap_only_when_a_lease_was_lost(
    evidence: Evidence,
) -> list[Overlap]:
    return [
        overlap
        for overlap in overlaps(evidence)
        if evidence.outcomes.get((overlap.job, overlap.earlier)) != "lease_lost"
    ]


# Returns the violations.
Rule = Callable[[Evidence], Sequence[object]]

_RULES: tuple[Rule, ...] = (
    no_acknowledged_job_is_lost,
    no_job_is_invented,
    every_job_has_succeeded,
    every_job_has_one_success,
    the_handler_of_a_success_has_finished,
    later_handlers_have_greater_leases,
)
# A claim that the server lost in a crash is not recorded, and its job may start again at once.
_RULES_WITHOUT_SERVER_CRASHES: tuple[Rule, ...] = (
    handlers_ran_under_granted_leases_only,
    two_handlers_of_a_job_overlap_only_when_a_lease_was_lost,
)
