"""`jobforge bench`: measure JobForge on this Postgres, in a temporary database."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Annotated
from uuid import UUID, uuid4

import psycopg
import typer
from psycopg import sql
from psycopg.conninfo import make_conninfo

from jobforge import calls, db
from jobforge.cli import output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.database import connect
from jobforge.cli.options import UNTIL_STDIN_CLOSES, AsJson
from jobforge.cli.shared_options import DATABASE
from jobforge.db import Connection
from jobforge.db.migrate import migrate
from jobforge.errors import Denied, JobForgeError
from jobforge.process.environment import environment, is_credential
from jobforge.types.jobs import JobRequest

app = CommandGroup()

_APP, _DEFINITION, _QUEUE = "jobforge.cli.bench_app", "noop", "bench"
_BATCH = 1000
_SINGLE = 300
_PICK_UP_JOBS = 150
_ENQUEUE_INTERVAL_S = 0.02  # long enough for the workers to be idle at each enqueue
_LOOK_S = 0.02
_ENDING_S = 10.0


@app.command(options=DATABASE)
def bench(
    context: CommandContext,
    *,
    jobs: Annotated[
        int,
        typer.Option(
            min=1, max=10_000_000, metavar="N", help="Number of jobs to enqueue and drain."
        ),
    ] = 20_000,
    workers: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="Number of worker processes.")
    ] = 2,
    tenants: Annotated[
        int,
        typer.Option(
            min=1, max=1000, metavar="N", help="Number of tenants to spread the jobs across."
        ),
    ] = 5,
    as_json: AsJson = False,
) -> None:
    """Measure how fast this Postgres runs JobForge.

    Creates a database next to the configured one and drops it at the end. The jobs do nothing. The
    workers are processes on this machine.
    """
    with _interrupt_on_signals(), _new_database(context.database_url) as url:
        figures = _measure(url, jobs, workers, [uuid4() for _ in range(tenants)])
    parameters = {"jobs": jobs, "workers": workers, "tenants": tenants}
    output.print_record({**parameters, **figures}, as_json=as_json)


@contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, SIGTERM and SIGHUP, so that the cleanup runs.

    SIGINT too, because shells start background commands with SIGINT ignored.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _new_database(url: str) -> Iterator[str]:
    """Yield the URL of a new database with the schema; drop it at the end."""
    name = f"jobforge_bench_{token_hex(4)}"
    with connect(url) as conn:
        try:
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        except psycopg.errors.InsufficientPrivilege as error:
            raise Denied(
                "This login is not allowed to create the benchmark database",
                hint=f'Use another login, or run: alter role "{conn.info.user}" createdb;',
            ) from error
        try:
            output.note(f"Measuring in the new database {name}")
            new = make_conninfo(url, dbname=name)
            _install(new)
            yield new
        finally:
            conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _install(url: str) -> None:
    with connect(url) as conn:
        with output.show_progress("migrating") as report:
            migrate(conn, on_progress=report)
        found = conn.execute("select pg_has_role(session_user, 'jobforge_server', 'usage')")
        if found.fetchone() == (False,):
            raise Denied(
                "This login can install the schema, but not enqueue and run jobs for all tenants",
                hint=f'Run: grant jobforge_server to "{conn.info.user}";',
            )


def _measure(url: str, jobs: int, workers: int, tenants: Sequence[UUID]) -> dict[str, float]:
    with db.connect(url) as conn, _run_workers(url, workers) as pool:
        benchmark = _Benchmark(conn, pool, tenants)
        benchmark.await_workers()
        bulk_s = benchmark.enqueue_in_bulk(jobs)
        drain_s = benchmark.drain(jobs)
        single_s = benchmark.enqueue_singly()
        waits_ms = benchmark.measure_pick_up()
    return {
        "enqueued_in_bulk_per_s": round(jobs / bulk_s),
        "enqueued_singly_per_s": round(_SINGLE / single_s),
        "drained_per_s": round(jobs / drain_s),
        "pick_up_p50_ms": round(waits_ms[len(waits_ms) // 2], 1),
        "pick_up_p99_ms": round(waits_ms[len(waits_ms) * 99 // 100], 1),
    }


@dataclass(frozen=True, slots=True)
class _WorkerPool:
    """Running worker processes and their log."""

    processes: list[subprocess.Popen[bytes]]
    log_path: Path

    def wait_until(self, is_reached: Callable[[], bool]) -> None:
        """Wait for the condition. Raises JobForgeError with the log if a worker exits before."""
        while not is_reached():
            if any(process.poll() is not None for process in self.processes):
                log = self.log_path.read_text(encoding="utf-8", errors="replace").strip()
                raise JobForgeError(f"A worker exited: {log[-500:]}")
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(_ENDING_S)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def _run_workers(url: str, number: int) -> Iterator[_WorkerPool]:
    """Start workers without the user's settings, which are for another database."""
    command = [
        *(sys.executable, "-m", "jobforge", "worker", _APP, "--no-scheduler", "--no-connectors"),
        *("--log-level", "error", UNTIL_STDIN_CLOSES),
    ]
    inherited = {
        name: value
        for name, value in environment().items()
        if not (name.startswith("JOBFORGE_") or is_credential(name))
    }
    with tempfile.TemporaryDirectory(prefix="jobforge-bench-") as folder:
        variables = {**inherited, "JOBFORGE_DATABASE_URL": url, "XDG_CONFIG_HOME": folder}
        log_path = Path(folder, "said")
        with log_path.open("wb") as log:
            pool = _WorkerPool([], log_path)
            try:
                for _ in range(number):
                    pool.processes.append(
                        subprocess.Popen(
                            command,
                            stdin=subprocess.PIPE,
                            stdout=log,
                            stderr=log,
                            env=variables,
                            cwd=folder,
                            start_new_session=True,  # Ctrl-C must not reach the workers
                        )
                    )
                yield pool
            finally:
                pool.stop()


@dataclass(frozen=True, slots=True)
class _Benchmark:
    """The steps of the benchmark. The queue is paused while jobs are enqueued."""

    conn: Connection
    pool: _WorkerPool
    tenants: Sequence[UUID]

    def await_workers(self) -> None:
        output.note("Starting workers")
        number = len(self.pool.processes)
        self.pool.wait_until(lambda: len(db.run(self.conn, calls.list_workers())) == number)
        db.run(self.conn, calls.pause_queue(_QUEUE))

    def enqueue_in_bulk(self, jobs: int) -> float:
        """Enqueue in batches, alternating between tenants. Return the seconds it took."""
        batch_size = max(1, min(_BATCH, jobs // len(self.tenants)))
        began = time.perf_counter()
        with output.show_progress("enqueuing") as report:
            for number, first in enumerate(range(0, jobs, batch_size)):
                size = min(batch_size, jobs - first)
                batch = [JobRequest(_DEFINITION, {"n": first + each}) for each in range(size)]
                tenant_id = self.tenants[number % len(self.tenants)]
                db.run(self.conn, calls.enqueue_jobs(batch, tenant_id=tenant_id))
                report(first + size, jobs)
        return time.perf_counter() - began

    def drain(self, jobs: int) -> float:
        began = time.perf_counter()
        db.run(self.conn, calls.resume_queue(_QUEUE))
        with output.show_progress("draining") as report:
            self.pool.wait_until(lambda: self._is_drained(jobs, report))
        return time.perf_counter() - began

    def _is_drained(self, jobs: int, report: Callable[[int, int], None]) -> bool:
        left = sum(each.queued + each.running for each in db.run(self.conn, calls.list_queues()))
        report(jobs - left, jobs)
        return left == 0

    def enqueue_singly(self) -> float:
        db.run(self.conn, calls.pause_queue(_QUEUE))
        began = time.perf_counter()
        self._enqueue(_SINGLE, interval_s=0)
        took = time.perf_counter() - began
        self.drain(_SINGLE)
        return took

    def measure_pick_up(self) -> list[float]:
        """Return the sorted milliseconds from enqueue to claim by the database's clock."""
        output.note("Measuring how soon an idle worker claims a job")
        self._enqueue(_PICK_UP_JOBS, interval_s=_ENQUEUE_INTERVAL_S)
        self.drain(_PICK_UP_JOBS)
        newest = calls.list_jobs(limit=_PICK_UP_JOBS, tenant_id=self.tenants[0])
        listed = db.run(self.conn, newest)
        spans = [(job.started_at or job.created_at) - job.created_at for job in listed]
        return sorted(span.total_seconds() * 1000 for span in spans)

    def _enqueue(self, jobs: int, *, interval_s: float) -> None:
        for number in range(jobs):
            request = JobRequest(_DEFINITION, {"n": number})
            db.run(self.conn, calls.enqueue_job(request, tenant_id=self.tenants[0]))
            time.sleep(interval_s)
