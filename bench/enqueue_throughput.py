"""Enqueue rates: in bulk, one by one, and one by one from sixteen clients."""

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_servers import BenchError, BenchServers
from compared_side import Side
from measurements import Measurements
from run_sizes import Size
from side_program import GATE

BULK = "bulk enqueue/s"
SINGLE, COMMITS = "single enqueue/s", "commits/s"
CROWD = "16 clients/s"

_LONGEST_S = 60


def bulk(servers: BenchServers, side: Side, size: Size) -> Measurements:
    jobs = side.scale_jobs("bulk", size.bulk)
    with side.fresh_store(servers) as url:
        servers.admin.execute("checkpoint")
        answer = side.run_program("bulk", url, str(jobs))
    return {BULK: [jobs / answer["seconds"]]}


def single(servers: BenchServers, side: Side, size: Size) -> Measurements:
    with side.fresh_store(servers) as url:
        servers.admin.execute("checkpoint")
        answer = side.run_program("single", url, str(size.single))
    measured = {SINGLE: [size.single / answer["seconds"]]}
    if answer["bare_seconds"]:
        measured[COMMITS] = [size.single / answer["bare_seconds"]]
    return measured


def crowd(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure sixteen processes with one client each; all warm up before the first one starts."""
    each = max(1, size.single // 4)
    with (
        side.fresh_store(servers) as url,
        tempfile.TemporaryDirectory(prefix="jobforge-bench-") as folder,
    ):
        gate = Path(folder) / "gate"
        arguments = ("single", url, str(each))
        programs = [
            side.start_program(*arguments, env={GATE: str(gate)}) for _ in range(size.clients)
        ]
        try:
            _await_ready(gate, programs)
            servers.admin.execute("checkpoint")
            gate.touch()
            answers = [_answer(program) for program in programs]
        finally:
            for program in programs:
                program.kill()
                program.wait()
    seconds = max(one["ended"] for one in answers) - min(one["began"] for one in answers)
    return {CROWD: [each * size.clients / seconds]}


def _await_ready(gate: Path, programs: list["subprocess.Popen[str]"]) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while len(list(gate.parent.iterdir())) < len(programs):
        if any(program.poll() is not None for program in programs):
            raise BenchError(f"a client exited: {_last_error(programs)}")
        if time.monotonic() > deadline:
            raise BenchError(f"not all clients were ready within {_LONGEST_S} s")
        time.sleep(0.01)


def _answer(program: "subprocess.Popen[str]") -> Any:  # noqa: ANN401 - its JSON
    try:
        output, errors = program.communicate(timeout=_LONGEST_S)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"a client has not finished within {_LONGEST_S} s") from error
    if program.returncode != 0:
        raise BenchError(f"a client failed: {errors.strip().splitlines()[-1:]}")
    return json.loads(output.splitlines()[-1])


def _last_error(programs: list["subprocess.Popen[str]"]) -> str:
    ended = next(program for program in programs if program.poll() is not None)
    return "".join(ended.communicate()[1].strip().splitlines()[-1:])
