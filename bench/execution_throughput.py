"""How fast jobs get done: one process, two, and each job in a process of its own."""

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
    """Ours and rq's have a process for each job; celery's two processes are used again."""
    jobs = side.scale_jobs("isolated", size.isolated)
    measured = {ISOLATED: [drain_backlog(servers, side, jobs, isolated=True)[0]]}
    if side.name == "rq":  # one worker of ours uses all cores, one of rq's runs a job at a time
        measured[ISOLATED_2] = [drain_backlog(servers, side, jobs, isolated=True, processes=2)[0]]
    return measured
