"""Rates of execution: one worker process, two, and a separate process for each job."""

from bench_servers import BenchServers
from compared_side import Side
from drain import drain_backlog
from measurements import Measurements
from run_sizes import Size

DRAIN, DRAIN_WALL = "drain/s", "with start/s"
DRAIN_2, DRAIN_2_WALL = "2 processes/s", "2, with start/s"
ISOLATED, ISOLATED_2 = "isolated/s", "isolated, 2 workers/s"


def drain(servers: BenchServers, side: Side, size: Size) -> Measurements:
    rate, wall = drain_backlog(servers, side, side.scale_jobs("drain", size.drain))
    return {DRAIN: [rate], DRAIN_WALL: [wall]}


def drain_by_two(servers: BenchServers, side: Side, size: Size) -> Measurements:
    rate, wall = drain_backlog(servers, side, side.scale_jobs("drain", size.drain), processes=2)
    return {DRAIN_2: [rate], DRAIN_2_WALL: [wall]}


def isolated(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure isolated jobs. JobForge and rq start a process per job, celery reuses two."""
    jobs = side.scale_jobs("isolated", size.isolated)
    measured = {ISOLATED: [drain_backlog(servers, side, jobs, isolated=True)[0]]}
    if side.name == "rq":  # rq's worker runs one job at a time, JobForge's uses all cores
        measured[ISOLATED_2] = [drain_backlog(servers, side, jobs, isolated=True, processes=2)[0]]
    return measured
