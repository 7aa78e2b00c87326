"""Many jobs and one that waits for all of them: how fast they are settled, beside plain jobs."""

import time
from typing import Any

import orjson
from sql_bench import BATCH, CLAIM, Bench, Connection, tenant

ENQUEUE = "select count(*) from jobforge.enqueue_jobs(%s::jsonb, %s)"
WORKFLOW = "select count(*) from jobforge.enqueue_workflow(%s::jsonb, %s)"
SETTLE = "select * from jobforge.succeed_jobs(%s, %s, %s, %s)"
JOIN = "select state from jobforge.jobs where tenant_id = %s"


def plain(bench: Bench, jobs: int) -> float:
    """Jobs per second, settled by the worker's own way."""
    bench.clear()
    document = [{"definition": "noop", "payload": {"n": 1}}] * jobs
    bench.conn.execute(ENQUEUE, [orjson.dumps(document).decode(), tenant(0)])
    return _settled(bench, bench.conn, jobs)


def fan_in(bench: Bench, jobs: int) -> float:
    """The same for the parents of one job; the last of them releases it."""
    bench.clear()
    bench.conn.execute(
        "truncate jobforge.dependencies, jobforge.awaited_jobs, jobforge.workflows,"
        " jobforge.workflow_jobs"
    )
    nodes = [{"name": f"n{n}", "definition": "noop", "payload": {"n": 1}} for n in range(jobs)]
    join = {"name": "join", "definition": "noop", "after": [node["name"] for node in nodes]}
    document = orjson.dumps({"name": "fan-in", "nodes": [*nodes, join]}).decode()
    bench.conn.execute(WORKFLOW, [document, tenant(0)])
    rate = _settled(bench, bench.conn, jobs)
    if bench.conn.execute(JOIN, [tenant(0)]).fetchall() != [("queued",)]:
        raise RuntimeError("the join was not released")
    return rate


def _settled(bench: Bench, conn: Connection, jobs: int) -> float:
    bench.analyze_and_checkpoint()
    claimed: list[tuple[Any, ...]] = []
    while len(claimed) < jobs:
        claimed += conn.execute(CLAIM, [bench.worker, BATCH]).fetchall()
    # Of each row the tenant, the job and its lease; in the order of workers that run side by side.
    batches = [claimed[start : start + BATCH] for start in range(0, jobs, BATCH)]
    begun = time.perf_counter()
    for batch in batches:
        tokens = ([row[column] for row in batch] for column in range(3))
        conn.execute(SETTLE, [bench.worker, *tokens])
    return jobs / (time.perf_counter() - begun)
