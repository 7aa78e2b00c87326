"""Three concurrent schedulers, killed and frozen at random, make each firing once."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cluster import Connection, Database, wait_until
from faults.scenario import SEED, times
from sql import engine

MINUTES = times(5, 34)
EACH_MINUTE = 30
PROCESSES = 3
FAULTS = ("kill", "freeze", "kill", "freeze", "nothing")

pytestmark = pytest.mark.timeout(times(120, 1800))


@dataclass(slots=True)
class Schedulers:
    """Processes of `jobforge scheduler`; none survives the test."""

    url: str
    folder: Path
    running: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    started: int = 0

    def start(self) -> None:
        self.started += 1
        with (self.folder / f"scheduler-{self.started}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "jobforge", "scheduler", "--log-level", "debug"],
                cwd=self.folder,
                env={**os.environ, "JOBFORGE_DATABASE_URL": self.url},
                stdout=log,
                stderr=log,
            )
        self.running.append(process)

    def replace(self, process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        process.wait()
        self.running.remove(process)
        self.start()

    @contextlib.contextmanager
    def frozen(self, process: "subprocess.Popen[bytes]") -> Iterator[None]:
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()

    def log_tail(self) -> str:
        return "\n".join(
            f"{log.name}: {log.read_text(errors='replace')[-800:]}"
            for log in sorted(self.folder.glob("*.log"))
        )


def test_killed_and_frozen_schedulers_make_each_firing_once(
    database: Database, conn: Connection, folder: Path, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    engine.definition(conn, "test")
    _stop_the_clock(conn)
    for number in range(EACH_MINUTE):
        overlap = ("allow", "allow", "queue")[number % 3]
        _add(conn, f"minute {number}", overlap=overlap)
    schedulers = Schedulers(database.url_as("worker_login"), folder)
    done = Counter[str]()
    try:
        for _ in range(PROCESSES):
            schedulers.start()
        wait_until(
            lambda: _planned(conn) == EACH_MINUTE,
            within_s=times(30, 120),
            why=schedulers.log_tail,
        )
        for minute in range(MINUTES):
            before = _fired(conn)
            conn.execute("update public.test_clock set at = at + interval '1 minute'")
            conn.execute("select jobforge_private.wake_scheduler()")
            # This goal makes the fault happen at all points of their work.
            goal = before + chance.randrange(EACH_MINUTE)
            wait_until(partial(_has_fired, conn, goal), why=schedulers.log_tail)
            victim = chance.choice(schedulers.running)
            fault = FAULTS[minute % len(FAULTS)]
            done[fault] += 1
            everything = partial(_has_fired, conn, (minute + 1) * EACH_MINUTE)
            with contextlib.ExitStack() as until_all_is_done:
                if fault == "kill":
                    schedulers.replace(victim)
                elif fault == "freeze":
                    until_all_is_done.enter_context(schedulers.frozen(victim))
                wait_until(everything, why=schedulers.log_tail)
    finally:
        schedulers.close()

    expected = _expected(conn, MINUTES)
    found = conn.execute("select trigger_id, fire_at from jobforge.firings").fetchall()
    assert Counter((row["trigger_id"], row["fire_at"]) for row in found) == expected
    _check_jobs(conn)
    figures |= {"firings": len(found), "schedulers": schedulers.started, **done}


def _add(conn: Connection, label: str, **settings: Any) -> None:
    given = {"label": label, "definition": "test", "cron": "* * * * *", "timezone": "UTC"}
    payload = {"at": "{{schedule.fire_at}}"}
    more = {"catch_up": "all", "catch_up_limit": 100, "payload": payload, **settings}
    engine.call(
        conn, "create_trigger", type="schedule", settings=given | more, tenant_id=engine.TENANT_A
    )


def _stop_the_clock(conn: Connection) -> None:
    """Stop the clock, so that minutes begin only when the test moves it."""
    conn.execute(
        """
        create table public.test_clock as
            select date_trunc('minute', clock_timestamp()) + interval '30 seconds' as at;
        grant select on public.test_clock to public;
        create or replace function jobforge_private.now() returns timestamptz
        language sql volatile
        as $$ select c.at from public.test_clock as c $$;
        """
    )


def _has_fired(conn: Connection, count: int) -> bool:
    return _fired(conn) >= count


def _planned(conn: Connection) -> int:
    return _count(conn, "select count(*) as n from jobforge.triggers where next_run_at is not null")


def _fired(conn: Connection) -> int:
    return _count(conn, "select count(*) as n from jobforge.firings")


def _count(conn: Connection, query: str) -> int:
    row = conn.execute(query.encode()).fetchone()
    assert row
    return int(row["n"])


def _expected(conn: Connection, minutes: int) -> Counter[tuple[object, datetime]]:
    """Return each schedule at each minute since its creation, computed without the engine."""
    rows = conn.execute("select id, since from jobforge.triggers").fetchall()
    return Counter(
        (row["id"], row["since"].replace(second=0, microsecond=0) + timedelta(minutes=n))
        for row in rows
        for n in range(1, minutes + 1)
    )


def _check_jobs(conn: Connection) -> None:
    """Each enqueued firing has its job, each job its firing, and the payload the right time."""
    pairs = conn.execute(
        """
        select f.outcome, f.fire_at, f.trigger_id, j.id, j.payload, j.source_ref
          from jobforge.firings as f full join jobforge.jobs as j on j.id = f.job_id
        """
    ).fetchall()
    for pair in pairs:
        assert (pair["outcome"] == "enqueued") == (pair["id"] is not None), pair
        if pair["id"] is not None:
            assert pair["source_ref"] == str(pair["trigger_id"])
            assert datetime.fromisoformat(pair["payload"]["at"]) == pair["fire_at"]
    waiting = [pair for pair in pairs if pair["outcome"] == "enqueued"]
    assert len(waiting) >= len(pairs) // 2
