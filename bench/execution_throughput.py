"""How fast jobs get done: one process, two, and each job in a process of its own."""

from bench_servers import Stage
from compared_side import Side
from drain import drain_backlog
from measurements import Measured
from run_sizes import Size

DRAIN, DRAIN_WALL = "drain/s", "with start/s"
DRAIN_2, DRAIN_2_WALL = "2 processes/s", "2, with start/s"
ISOLATED, ISOLATED_2 = "isolated/s", "isolated, 2 workers/s"


def drain(stage: Stage, side: Side, size: Size) -> Measured:
    rate, wall = drain_backlog(stage, side, side.jobs("drain", size.drain))
    return {DRAIN: [rate], DRAIN_WALL: [wall]}


def drain_by_two(stage: Stage, side: Side, size: Size) -> Measured:
    rate, wall = drain_backlog(stage, side, side.jobs("drain", size.drain), processes=2)
    return {DRAIN_2: [rate], DRAIN_2_WALL: [wall]}


def isolated(stage: Stage, side: Side, size: Size) -> Measured:
    """Ours and rq's have a process for each job; celery's two processes are used again."""
    jobs = side.jobs("isolated", size.isolated)
    measured = {ISOLATED: [drain_backlog(stage, side, jobs, isolated=True)[0]]}
    if side.name == "rq":  # one worker of ours uses all cores, one of rq's runs a job at a time
        measured[ISOLATED_2] = [drain_backlog(stage, side, jobs, isolated=True, processes=2)[0]]
    return measured
