"""Times of a worker's start, of a job's cancellation, and of the recovery from a killed worker."""

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
CANCEL, CANCEL_IGNORED = "cancel ms", "cancel of a job that ignores it ms"
RECOVERY = "restart of a killed worker's job s"

_TENANT = UUID(int=1)
_ENQUEUE = "select job_id from jobforge.enqueue_jobs(%s::jsonb, %s)"
_CANCEL = "select jobforge.cancel_job(%s, p_tenant_id => %s)"


def start(servers: BenchServers, side: Side, size: Size) -> Measurements:  # noqa: ARG001 - a workload
    """Measure from the start of the worker process until it starts a job that was queued before."""
    with side.fresh_store(servers) as url, start_times_file() as (path, env):
        side.run_program("bulk", url, "1")
        began = time.time()
        with side.run_workers(url, env=env) as workers:
            workers.wait_until(lambda: start_times.count(path) > 0)
        (started,) = start_times.read(path)
    return {START: [(started - began) * 1000]}


def recovery(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure from `kill -9` of a worker until another worker has restarted its job."""
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
        _enqueue(conn, "wait_forever", {"n": 0})
        with side.run_workers(url, env={**env, **leases}) as workers:
            workers.wait_until(lambda: start_times.count(path) == 1)
            killed = time.time()
            workers.kill()
        with side.run_workers(url, env={**env, **leases}) as others:
            others.wait_until(lambda: start_times.count(path) == 2)
        return start_times.read(path)[1] - killed


def cancel(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure from the call that cancels a job until the job's process has exited.

    One job checks whether it was canceled. The other one does not: the worker asks it to stop, and
    raises Cancelled in its handler a second later.
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
                payload = {"pid_file": str(pid_file), "ignores_cancel": name == CANCEL_IGNORED}
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
