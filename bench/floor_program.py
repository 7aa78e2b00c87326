"""Program of the floor: bare tables and hand-written SQL without a job server. See floor_sql.py.

One job is enqueued by an INSERT, many by a COPY. As JobForge's worker does, this worker claims on
one connection while another completes. It calls no handler; it only records the start of a job.
"""

import json
import queue
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import floor_sql
import psycopg
from side_program import Client, Program, main
from start_times import record_start

from jobforge.db.migrate import migrate

_BATCH = 2_000
_TENANT = UUID(int=1)
_AHEAD = 2  # batches that may be claimed before the first is completed
_PAUSE_S = 0.001
_INSERT = """
insert into floor.jobs (tenant_id, id, created_at, run_at, queued_at, version, max_attempts,
                        allowance, state, definition, queue, payload)
values (%s, gen_random_uuid(), now(), now(), now(), 1, 5, 5, 'queued', 'noop', 'default', %s)
"""

Claimed = list[tuple[Any, ...]]


async def install(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        migrate(conn)
        conn.execute(floor_sql.SCHEMA, prepare=False)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.prepare_threshold = 1

        async def enqueue(number: int) -> None:
            conn.execute(_INSERT, [_TENANT, json.dumps({"n": number})])

        async def enqueue_many(numbers: Sequence[int]) -> None:
            with conn.cursor() as cursor, cursor.copy(floor_sql.COPY) as copy:
                copy.write(floor_sql.format_copy_rows(_TENANT, numbers))

        yield Client(enqueue, enqueue_many)


def work(url: str) -> None:
    claimed: queue.Queue[Claimed] = queue.Queue(_AHEAD)
    threading.Thread(target=_complete, args=(url, claimed), daemon=True).start()
    worker = uuid4()
    with _connect(url) as conn:
        while True:
            rows = conn.execute(
                floor_sql.CLAIM, ["default", _BATCH, worker], binary=True
            ).fetchall()
            for row in rows:
                record_start(row[-1]["n"])
            if rows:
                claimed.put(rows)
            else:
                time.sleep(_PAUSE_S)


def _complete(url: str, claimed: "queue.Queue[Claimed]") -> None:
    with _connect(url) as conn:
        while True:
            rows = claimed.get()
            conn.execute(floor_sql.COMPLETE, [[row[0] for row in rows], [row[1] for row in rows]])


def _connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    conn = psycopg.connect(url, autocommit=True)
    conn.prepare_threshold = 1
    conn.execute(floor_sql.PLAN, prepare=False)
    return conn


if __name__ == "__main__":
    main(Program(install, client, work))
