"""Starts and ends: the start of a worker, a canceled job, and a worker that was killed."""

import json
import time
from functools import partial
from pathlib import Path
from uuid import UUID

import psycopg
import start_times
from bench_servers import BenchError, BenchServers, Connection
from compared_side import Side, start_times_file
from measurements import Measurements
from run_sizes import Size

START = "start to first job ms"
CANCEL, CANCEL_IGNORED = "cancel ms", "cancel of a deaf job ms"
RECOVERY = "killed worker's job starts again s"

_TENANT = UUID(int=1)
_ENQUEUE = "select job_id from jobforge.enqueue_jobs(%s::jsonb, %s)"
_CANCEL = "select jobforge.cancel_job(%s, p_tenant_id => %s)"


def start(servers: BenchServers, side: Side, size: Size) -> Measurements:  # noqa: ARG001 - a workload
    """From the start of the process until it has started a job that was there before."""
    with side.fresh_store(servers) as url, start_times_file() as (path, env):
        side.run_program("bulk", url, "1")
        began = time.time()
        with side.run_workers(url, env=env) as workers:
            workers.wait_until(lambda: start_times.count(path) > 0)
        (started,) = start_times.read(path)
    return {START: [(started - began) * 1000]}


def recovery(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """From kill -9 of a worker until another has started its job again."""
    leases = {
        "JOBFORGE_LEASE_S": str(size.lease_s),
        "JOBFORGE_HEARTBEAT_S": str(size.lease_s / 3),
    }
    return {RECOVERY: [_recover(servers, side, leases) for _ in range(size.recoveries)]}


def _recover(servers: BenchServers, side: Side, leases: dict[str, str]) -> float:
    with (
        side.fresh_store(servers) as url,
        psycopg.connect(url, autocommit=True) as conn,
        start_times_file() as (path, env),
    ):
        _enqueue(conn, "held", {"n": 0})
        with side.run_workers(url, env={**env, **leases}) as workers:
            workers.wait_until(lambda: start_times.count(path) == 1)
            killed = time.time()
            workers.kill()
        with side.run_workers(url, env={**env, **leases}) as others:
            others.wait_until(lambda: start_times.count(path) == 2)
        return start_times.read(path)[1] - killed


def cancel(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """From the call to cancel until the process of the running job is gone.

    One job looks whether it was canceled. The other does not: it is asked, and told a second later.
    """
    measured: Measurements = {CANCEL: [], CANCEL_IGNORED: []}
    with (
        side.fresh_store(servers) as url,
        psycopg.connect(url, autocommit=True) as conn,
        side.run_workers(url, isolated=True, env={}) as workers,
    ):
        for number in range(size.cancels):
            for name in measured:
                pid_file = servers.folder / f"{name} {number}"
                pid_file.unlink(missing_ok=True)
                payload = {"pid_file": str(pid_file), "is_deaf": name == CANCEL_IGNORED}
                job_id = _enqueue(conn, "sleeper", payload)
                workers.wait_until(pid_file.exists)
                process = Path("/proc") / pid_file.read_text()
                began = time.perf_counter()
                conn.execute(_CANCEL, [job_id, _TENANT])
                workers.wait_until(partial(_is_gone, process))
                measured[name].append((time.perf_counter() - began) * 1000)
    return measured


def _enqueue(conn: Connection, definition: str, payload: dict[str, object]) -> UUID:
    job = {"definition": definition, "payload": payload}
    row = conn.execute(_ENQUEUE, [json.dumps([job]), _TENANT]).fetchone()
    if row is None:
        raise BenchError("a job was not enqueued")
    return UUID(str(row[0]))


def _is_gone(process: Path) -> bool:
    return not process.exists()
