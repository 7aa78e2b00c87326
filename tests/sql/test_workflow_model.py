"""Random workflows with failures, kills, cancels and retries, compared with a short model.

Each node runs only when its parents have ended as its policy demands, ends as the policy says, and
nothing stays blocked indefinitely.
"""

import os
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from cluster import Connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql.engine import Row, call, claim, complete, definition, new_worker, reap

MOST_NODES = 60
ATTEMPTS = 3
EXAMPLES = 400 if "JOBFORGE_LONG" in os.environ else 15

ENDED = {"succeeded", "canceled", "dead"}
POLICIES = ["cancel", "cancel", "run", "wait"]


@dataclass
class Node:
    """The model's state of a node; `failures` is the number of attempts that are to fail."""

    parents: set[int]
    policy: str
    failures: int
    state: str = "blocked"
    attempts: int = 0


@dataclass
class Model:
    nodes: list[Node]

    def __post_init__(self) -> None:
        self.settle()

    def settle(self) -> None:
        """Release or cancel blocked nodes until nothing changes any more."""
        moved = True
        while moved:
            moved = False
            for node in self.nodes:
                if node.state == "blocked":
                    node.state = self._next(node)
                    moved |= node.state != "blocked"

    def _next(self, node: Node) -> str:
        states = {self.nodes[parent].state for parent in node.parents}
        if node.policy == "cancel" and states & {"canceled", "dead"}:
            return "canceled"
        enough = {"succeeded"} if node.policy != "run" else ENDED
        return "ready" if states <= enough else "blocked"

    def end_attempt(self, number: int) -> str:
        """End the attempt of a claimed node; return the outcome to report."""
        node = self.nodes[number]
        assert node.state == "ready", number
        node.attempts += 1
        if node.attempts > node.failures:
            node.state = "succeeded"
            return "succeeded"
        if node.attempts == ATTEMPTS:
            node.state = "dead"
        return "failed"

    def retry(self) -> int:
        """Run again all nodes that did not succeed; from now on all attempts succeed."""
        again = [node for node in self.nodes if node.state in {"canceled", "dead"}]
        for node in again:
            node.state, node.attempts = "blocked", 0
        for node in self.nodes:
            node.failures = 0
        return len(again)

    @property
    def state(self) -> str:
        states = {node.state for node in self.nodes}
        if states - ENDED:
            return "running"
        return next((name for name in ("dead", "canceled") if name in states), "succeeded")


@dataclass
class Engine:
    """The same workflow in the database."""

    conn: Connection
    model: Model
    tenant: UUID = field(default_factory=uuid4)
    worker: UUID = field(default_factory=new_worker)

    def __post_init__(self) -> None:
        nodes = [
            {
                "name": str(number),
                "definition": "test",
                "after": [str(parent) for parent in sorted(node.parents)],
                "on_parent_failure": node.policy,
            }
            for number, node in enumerate(self.model.nodes)
        ]
        rows = call(self.conn, "enqueue_workflow", workflow={"nodes": nodes}, tenant_id=self.tenant)
        self.id = rows[0]["workflow_id"]

    def run(self, limit: int, *, kill: bool) -> int:
        """Claim up to `limit` jobs and end them all at once; a killed one is left to the reaper."""
        rows = claim(self.conn, self.worker, limit=limit, tenants=[self.tenant])
        numbers = self._numbers()
        ends: dict[str, list[Row]] = {}
        for row in rows:
            outcome = self.model.end_attempt(numbers[row["job_id"]])
            ends.setdefault(outcome, []).append(row)
        complete(self.conn, self.worker, ends.get("succeeded", []))
        if kill:
            self.conn.execute(
                "update jobforge.jobs set lease_expires_at = now() - interval '1 s' "
                "where tenant_id = %s and state = 'running'",
                [self.tenant],
            )
            reap(self.conn)
        else:
            complete(self.conn, self.worker, ends.get("failed", []), "failed")
        self.conn.execute(
            "update jobforge.jobs set run_at = now() where tenant_id = %s and state = 'scheduled'",
            [self.tenant],
        )
        self.model.settle()
        return len(rows)

    def cancel(self, number: int) -> None:
        node = self.model.nodes[number]
        if node.state in ENDED:
            return
        node.state = "canceled"
        self.model.settle()
        jobs = {each: job for job, each in self._numbers().items()}
        call(self.conn, "cancel_job", job_id=jobs[number], tenant_id=self.tenant)

    def retry(self) -> None:
        expected = self.model.retry()
        self.model.settle()
        [row] = call(self.conn, "retry_workflow", id=self.id, tenant_id=self.tenant)
        assert row["retry_workflow"] == expected

    def check(self) -> None:
        shown = self._shown()
        states = {int(each["node"]): each["state"] for each in shown["nodes"]}
        ready = {"queued": "ready", "scheduled": "ready"}
        found = [ready.get(states[number], states[number]) for number in range(len(states))]
        assert found == [node.state for node in self.model.nodes]
        state = shown["workflow"]["state"]
        assert state == {"dead": "failed"}.get(self.model.state, self.model.state)

    def _numbers(self) -> dict[UUID, int]:
        return {UUID(each["job_id"]): int(each["node"]) for each in self._shown()["nodes"]}

    def _shown(self) -> Row:
        [row] = call(self.conn, "get_workflow", id=self.id, tenant_id=self.tenant)
        return row


@st.composite
def models(draw: st.DrawFn) -> Model:
    size = draw(st.integers(1, MOST_NODES))
    nodes = []
    for number in range(size):
        earlier = st.integers(0, number - 1) if number else st.nothing()
        parents = draw(st.sets(earlier, max_size=4)) if number else set()
        policy = draw(st.sampled_from(POLICIES))
        failures = draw(st.sampled_from([0, 0, 0, 0, 1, ATTEMPTS]))
        nodes.append(Node(parents, policy, failures))
    return Model(nodes)


steps = st.lists(
    st.tuples(st.sampled_from(["run", "run", "run", "kill", "cancel"]), st.integers(1, MOST_NODES)),
    max_size=12,
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(model=models(), plan=steps)
def test_a_workflow_does_what_its_model_does(
    shared_conn: Connection, model: Model, plan: list[tuple[str, int]]
) -> None:
    definition(shared_conn, max_attempts=ATTEMPTS, backoff_base_s=0)
    engine = Engine(shared_conn, model)
    engine.check()
    for kind, number in plan:
        if kind == "cancel":
            engine.cancel(number % len(model.nodes))
        else:
            engine.run(number, kill=kind == "kill")
        engine.check()
    finish(engine)
    if {node.state for node in model.nodes} & {"canceled", "dead"}:
        engine.retry()
        engine.check()
        finish(engine)
    assert {node.state for node in model.nodes} == {"succeeded"}


def finish(engine: Engine) -> None:
    """Finish all runnable nodes; a node that is still blocked waits for a parent that has to be
    retried."""
    while engine.run(MOST_NODES, kill=False):
        engine.check()
    engine.check()
