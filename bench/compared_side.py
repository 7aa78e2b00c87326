"""One side of the comparison: JobForge, the floor or another system, with its programs."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import process_usage
import psycopg
import rival_environments
import start_times
from bench_servers import (
    BenchError,
    BenchServers,
    Connection,
    count_waiting,
    locked_table,
    wait_for_workers,
)
from rivals.catalog import Rival

import jobforge

HERE = Path(__file__).parent
_LONGEST_S = 120
_JOBFORGE = Rival(
    "jobforge",
    settings="2,000 slots, 32 for isolated jobs; attempts, fencing, fairness and history on",
    table="jobforge.jobs",
    unfinished_query="select count(*) from jobforge.jobs where definition <> 'wait_forever'",
    largest_backlog=10_000_000,
)
_FLOOR = Rival(
    "floor",
    settings="no job server: hand-written SQL on bare tables, the same row writes as JobForge",
    table="floor.jobs",
    unfinished_query="select count(*) from floor.jobs",
)
_PROGRAMS = {"jobforge": "jobforge_program.py", "floor": "floor_program.py"}
_SLOTS = {False: "default:2000", True: "isolated:32"}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison, and the programs that enqueue and run its jobs."""

    rival: Rival

    @property
    def name(self) -> str:
        return self.rival.name

    @property
    def is_jobforge(self) -> bool:
        return self.rival is _JOBFORGE

    @property
    def is_durable(self) -> bool:
        return not self.rival.redis_key

    @property
    def template(self) -> str:
        return f"template_{self.name}"

    def scale_jobs(self, workload: str, count: int) -> int:
        return max(2, round(count * self.rival.shares.get(workload, 1)))

    def install(self, servers: BenchServers) -> None:
        """Create the template database. Call this once; each measurement starts from a copy."""
        if self.is_durable:
            self.run_program("install", servers.create_database(self.template))

    @contextmanager
    def fresh_store(self, servers: BenchServers) -> Iterator[str]:
        """Provide the URL of an empty Postgres database or of the emptied Redis."""
        if self.is_durable:
            with servers.fresh_database(self.template) as url:
                yield url
            return
        servers.redis.run_command("flushall")
        yield servers.redis.url

    def count_unfinished(self, conn: Connection) -> int:
        """Return the number of jobs that are not finished."""
        (count,) = conn.execute(self.rival.unfinished_query.encode()).fetchone() or (0,)
        return int(count)

    def run_program(self, *arguments: str, env: dict[str, str] | None = None) -> Any:  # noqa: ANN401 - its JSON
        """Run the side's program and return the JSON that it prints."""
        try:
            result = subprocess.run(
                [*self._program(), *arguments],
                env=self._environment(env or {}),
                capture_output=True,
                text=True,
                timeout=_LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{arguments[0]} has not ended within {_LONGEST_S} s") from error
        if result.returncode != 0:
            raise BenchError(f"{arguments[0]} failed: {_last_error(result.stderr)}")
        return json.loads(result.stdout.splitlines()[-1])

    def start_program(self, *arguments: str, env: dict[str, str]) -> "subprocess.Popen[str]":
        """Start the side's program without waiting for it; it prints its result on stdout."""
        return subprocess.Popen(
            [*self._program(), *arguments],
            env=self._environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def run_workers(
        self, url: str, *, processes: int = 1, isolated: bool = False, env: dict[str, str]
    ) -> Iterator["Workers"]:
        """Start worker processes; kill them and their descendants at the end."""
        command = [*self._program(), "work", url]
        copies = processes
        if self.is_jobforge:
            command, copies = _jobforge_worker(processes, isolated=isolated), 1
        variables = self._environment(
            {"JOBFORGE_DATABASE_URL": url, "JOBFORGE_LOG_LEVEL": "warning", **env}
        )
        with tempfile.TemporaryFile("w+") as log:
            started = [
                subprocess.Popen(
                    command,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                for _ in range(copies)
            ]
            try:
                yield Workers(started, log)
            finally:
                for each in started:
                    _kill(each)

    @contextmanager
    def run_ready_worker(
        self, servers: BenchServers, url: str, env: dict[str, str]
    ) -> Iterator["Workers"]:
        """Start a worker, and yield when it has asked for its first jobs."""
        if not self.is_durable:
            redis = servers.redis
            with self.run_workers(url, env=env) as workers:
                wait_for_workers(
                    redis.count_polling if self.rival.polls else redis.count_blocked,
                    1,
                    workers.check,
                )
                yield workers
            return
        with (
            psycopg.connect(url, autocommit=True) as conn,
            locked_table(url, self.rival.table) as lock,
            self.run_workers(url, env=env) as workers,
        ):
            wait_for_workers(lambda: count_waiting(conn), 1, workers.check)
            lock.commit()
            yield workers

    def _program(self) -> list[str]:
        if self.name in _PROGRAMS:
            return [sys.executable, str(HERE / _PROGRAMS[self.name])]
        if self.rival.npm:
            return [str(rival_environments.node()), str(HERE / "rivals" / f"{self.name}.mjs")]
        # `-m` and `-P` keep rivals/ off the path, because its files have the libraries' names.
        return [str(rival_environments.python(self.rival)), "-P", "-m", f"rivals.{self.name}"]

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "PYTHONPATH": str(HERE),
            "BENCH_MODULES": str(rival_environments.modules(self.rival)),
            **more,
        }


@dataclass(frozen=True, slots=True)
class Workers:
    """The worker processes of a side, and their log."""

    processes: list["subprocess.Popen[bytes]"]
    log: Any

    @property
    def pid(self) -> int:
        return self.processes[0].pid

    def check(self) -> None:
        for each in self.processes:
            if each.poll() is not None:
                self.log.seek(0)
                raise BenchError(f"a worker exited: {_last_error(self.log.read())}")

    def wait_until(self, condition: Callable[[], bool], share: float = 0) -> None:
        """Poll the condition every millisecond, or after this share of the elapsed time."""
        start = time.monotonic()
        while not condition():
            self.check()
            passed = time.monotonic() - start
            if passed > _LONGEST_S:
                raise BenchError(f"not done within {_LONGEST_S} s")
            time.sleep(max(0.001, passed * share))

    def cpu_s(self) -> float:
        return sum(process_usage.cpu_s(each.pid) for each in self.processes)

    def memory_mb(self) -> float:
        return sum(process_usage.memory_mb(each.pid) for each in self.processes)

    def kill(self) -> None:
        """Kill the workers and their descendants by SIGKILL."""
        for each in self.processes:
            _kill(each)


def jobforge_side() -> Side:
    return Side(_JOBFORGE)


def floor_side() -> Side:
    """Return the floor: the least that a job server with history has to write, without a server."""
    return Side(_FLOOR)


def version_of(side: Side) -> str:
    return jobforge.__version__ if side.name in _PROGRAMS else side.rival.version


@contextmanager
def start_times_file(step: int = 1) -> Iterator[tuple[Path, dict[str, str]]]:
    """Create an empty file for start times; yield it and the variables that name it."""
    with tempfile.TemporaryDirectory(prefix="jobforge-bench-") as folder:
        path = Path(folder) / "start_times"
        path.touch()
        yield path, {start_times.FILE: str(path), start_times.STEP: str(step)}


def _jobforge_worker(processes: int, *, isolated: bool) -> list[str]:
    arguments = ["--queues", _SLOTS[isolated], "--processes", str(processes)]
    return [sys.executable, "-m", "jobforge", "worker", str(HERE / "app.py"), *arguments]


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_error(text: str) -> str:
    """Return the last line with an error; Node prints its version after the error."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line]
    return (errors or lines or ["no output"])[-1].strip()
