"""Rate at which the many parents of one job are settled, compared with independent jobs."""

import time
from typing import Any

import orjson
from sql_bench import BATCH, CLAIM, Bench, Connection, tenant

ENQUEUE = "select count(*) from jobforge.enqueue_jobs(%s::jsonb, %s)"
WORKFLOW = "select count(*) from jobforge.enqueue_workflow(%s::jsonb, %s)"
SETTLE = "select * from jobforge.succeed_jobs(%s, %s, %s, %s)"
JOIN = "select state from jobforge.jobs where tenant_id = %s"


def plain(bench: Bench, jobs: int) -> float:
    """Return jobs per second for independent jobs, settled as the worker does."""
    bench.clear()
    document = [{"definition": "noop", "payload": {"n": 1}}] * jobs
    bench.conn.execute(ENQUEUE, [orjson.dumps(document).decode(), tenant(0)])
    return _settle_all(bench, bench.conn, jobs)


def fan_in(bench: Bench, jobs: int) -> float:
    """Return jobs per second for the parents of one job; the last parent releases the job."""
    bench.clear()
    bench.conn.execute(
        "truncate jobforge.dependencies, jobforge.awaited_jobs, jobforge.workflows,"
        " jobforge.workflow_jobs"
    )
    nodes = [{"name": f"n{n}", "definition": "noop", "payload": {"n": 1}} for n in range(jobs)]
    join = {"name": "join", "definition": "noop", "after": [node["name"] for node in nodes]}
    document = orjson.dumps({"name": "fan-in", "nodes": [*nodes, join]}).decode()
    bench.conn.execute(WORKFLOW, [document, tenant(0)])
    rate = _settle_all(bench, bench.conn, jobs)
    if bench.conn.execute(JOIN, [tenant(0)]).fetchall() != [("queued",)]:
        raise RuntimeError("the join was not released")
    return rate


def _settle_all(bench: Bench, conn: Connection, jobs: int) -> float:
    bench.analyze_and_checkpoint()
    claimed: list[tuple[Any, ...]] = []
    while len(claimed) < jobs:
        claimed += conn.execute(CLAIM, [bench.worker, BATCH]).fetchall()
    # The first three columns are tenant, job and lease; batches are in the order of the claims.
    batches = [claimed[first : first + BATCH] for first in range(0, jobs, BATCH)]
    start = time.perf_counter()
    for batch in batches:
        tokens = ([row[column] for row in batch] for column in range(3))
        conn.execute(SETTLE, [bench.worker, *tokens])
    return jobs / (time.perf_counter() - start)
