"""The floor: the cost of the row writes that a job needs in Postgres, without anything else.

The floor has bare tables with JobForge's columns, but no fairness, limits, fencing, checks, row
security or partitions. Hand-written batch SQL claims a job by an UPDATE of its row, and completes
it by a DELETE and an INSERT into the history. A job server that keeps history makes at least these
writes.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg

SCHEMA = """
drop schema if exists floor cascade;
create schema floor;
create table floor.jobs (like jobforge.jobs including defaults) with (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
alter table floor.jobs add primary key (tenant_id, id);
create index on floor.jobs (queue, priority desc, run_at, id) where state = 'queued';
create index on floor.jobs (lease_expires_at) where state = 'running';
create table floor.finished_jobs (like jobforge.finished_jobs);
create index on floor.finished_jobs (tenant_id, id);
"""

# Pins the plan that Postgres chooses with fresh statistics.
PLAN = """
set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off;
set enable_hashjoin = off; set enable_mergejoin = off
"""

CLAIM = """
with picked as materialized (
    select ctid from floor.jobs where queue = %s and state = 'queued'
     order by priority desc, run_at, id limit %s for update skip locked
)
update floor.jobs as j
   set state = 'running', attempt = attempt + 1, lease = lease + 1, worker_id = %s,
       lease_expires_at = clock_timestamp() + interval '30 seconds',
       started_at = clock_timestamp()
  from picked where j.ctid = picked.ctid
returning j.tenant_id, j.id, j.lease, j.lease_expires_at, j.definition, j.version, j.queue,
          j.priority, j.attempt, j.max_attempts, j.timeout_s, j.created_at, j.run_at, j.queued_at,
          j.started_at, j.source, j.source_ref, j.correlation_id, j.traceparent,
          j.idempotency_key, j.limit_key, j.tags, j.artifact_ref, j.flags, j.payload
"""

COMPLETE = """
with done as materialized (
    select * from unnest(%s::uuid[], %s::uuid[]) as t(tenant_id, id)
), deleted as (
    delete from floor.jobs as j using done as d
     where j.tenant_id = d.tenant_id and j.id = d.id
    returning j.*
), finished as (
    insert into floor.finished_jobs
    select tenant_id, id, lease, created_at, run_at, queued_at, started_at, cancel_requested_at,
           expires_at, clock_timestamp(), pg_current_xact_id(), worker_id, retry_of, version,
           attempt, max_attempts, allowance, timeout_s, priority, flags, 'succeeded', definition,
           queue, source, limit_key, idempotency_key, source_ref, correlation_id, traceparent,
           created_by, cancel_reason, fingerprint, artifact_ref, tags, error, payload, result
      from deleted
)
select count(*) from deleted
"""

COPY = """
copy floor.jobs (tenant_id, id, created_at, run_at, queued_at, version, max_attempts,
                 allowance, state, definition, queue, payload) from stdin
"""


def format_copy_rows(tenant_id: UUID, numbers: Sequence[int]) -> str:
    """Return COPY's input for jobs with these numbers; IDs are random, as an application's are."""
    now = datetime.now(UTC).isoformat()
    return "".join(
        f"{tenant_id}\t{uuid4()}\t{now}\t{now}\t{now}\t1\t5\t5\tqueued\tnoop\tdefault\t"
        f'{{"n": {number}}}\n'
        for number in numbers
    )


def drain(conn: psycopg.Connection[Any], worker: UUID, jobs: int, batch: int) -> int:
    """Claim and complete jobs until `jobs` are done or none is left; return the number done."""
    conn.execute(PLAN, prepare=False)
    done = 0
    while done < jobs:
        rows = conn.execute(CLAIM, ["default", batch, worker], binary=True).fetchall()
        if not rows:
            break
        conn.execute(COMPLETE, [[row[0] for row in rows], [row[1] for row in rows]])
        done += len(rows)
    return done
