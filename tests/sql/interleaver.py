"""Run the steps of several sessions in a given order on real connections.

A step that waits for a lock keeps waiting while other sessions continue; the remaining steps of its
session follow as soon as it has the lock. A transaction takes no snapshot before its first
statement, so the position of `begin` does not matter: it is sent with the first step, and so is the
isolation level. A transaction may stay open until all other steps are done. The caller defines the
steps and checks the results.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import psycopg
from cluster import Connection

Action = Callable[[Connection], Any]


@dataclass(frozen=True, slots=True)
class Script:
    """The steps of one session in one transaction, and how the transaction ends.

    With `stays_open` it ends after all other steps of a schedule that `orders` has generated.
    """

    name: str
    calls: tuple[Action, ...]
    commits: bool = True
    stays_open: bool = False
    isolation: str | None = None

    @property
    def steps(self) -> tuple[Action, ...]:
        first, *others = self.calls
        return (self._begin(first), *others, _commit if self.commits else _roll_back)

    def _begin(self, first: Action) -> Action:
        if self.isolation is None:
            return first
        command = f"set transaction isolation level {self.isolation}".encode()

        def begin(connection: Connection) -> object:
            connection.execute(command)
            return first(connection)

        return begin


@dataclass(slots=True)
class Outcome:
    """The outcome of a script: the result of each call, or the error that ended the transaction."""

    script: Script
    answers: list[Any] = field(default_factory=list)
    error: psycopg.Error | None = None

    @property
    def committed(self) -> bool:
        return self.script.commits and self.error is None


def interleavings(*lengths: int) -> Iterator[tuple[int, ...]]:
    """Generate all orders of the steps; a step is represented by the number of its session."""
    if not any(lengths):
        yield ()
        return
    for session, left in enumerate(lengths):
        if left:
            fewer = (*lengths[:session], left - 1, *lengths[session + 1 :])
            for rest in interleavings(*fewer):
                yield (session, *rest)


def orders(scripts: Sequence[Script]) -> list[tuple[int, ...]]:
    """Generate all orders of the steps of the scripts; those that stay open end last, in their
    order.
    """
    lengths = [len(script.steps) - script.stays_open for script in scripts]
    ends = [number for number, script in enumerate(scripts) if script.stays_open]
    return [(*order, *ends) for order in interleavings(*lengths)]


class Interleaver:
    """Sessions that stay open from run to run, and a connection that observes lock waits."""

    def __init__(self, observer: Connection, connections: Sequence[Connection]) -> None:
        self._observer = observer
        self._sessions = [_Session(connection) for connection in connections]

    def close(self) -> None:
        for session in self._sessions:
            session.close()

    def run(
        self,
        scripts: Sequence[Script],
        schedule: Sequence[int],
        at_each_commit: Callable[[], None],
    ) -> list[Outcome]:
        """Return the outcome of each script. Fail on a deadlock, or if a step waits for no lock."""
        sessions = self._sessions[: len(scripts)]
        for session, script in zip(sessions, scripts, strict=True):
            session.take(script)
        for number in schedule:
            sessions[number].owed += 1
            self._advance(sessions, at_each_commit)
        deadline = time.monotonic() + 30
        while any(session.is_waiting for session in sessions):
            self._advance(sessions, at_each_commit)
            assert time.monotonic() < deadline, "a step waits, and no other session blocks it"
        return [session.outcome for session in sessions]

    def _advance(self, sessions: Sequence["_Session"], at_each_commit: Callable[[], None]) -> None:
        """Start all steps that are due, until every session has run its steps or waits for a
        lock."""
        moved = True
        while moved:
            moved = False
            for session in sessions:
                if session.is_waiting:
                    moved |= self._comes_through(session)
                elif session.can_go_on:
                    ends = session.start()
                    self._comes_through(session)
                    moved = True
                    if ends:
                        at_each_commit()

    def _comes_through(self, session: "_Session") -> bool:
        """Return true when the step has ended, and false as soon as the session waits for a
        lock."""
        while not session.finished(within=0.002):
            [row] = self._observer.execute(
                "select cardinality(pg_blocking_pids(%s)) > 0 as waits", [session.pid]
            ).fetchall()
            if row["waits"]:
                return False
        return True


class _Session:
    """One connection, used by one thread, and its position in its script."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._steps: list[Action] = []
        self._running: Future[Any] | None = None
        self.pid = connection.info.backend_pid
        self.owed = 0
        self.outcome = Outcome(Script("", ()))
        connection.execute("set deadlock_timeout = '50ms'")
        connection.commit()

    def close(self) -> None:
        self._connection.cancel_safe()  # a failed run may have left it waiting
        self._thread.shutdown()

    def take(self, script: Script) -> None:
        self.owed = 0
        self.outcome = Outcome(script)
        self._steps = list(script.steps)

    @property
    def is_waiting(self) -> bool:
        return self._running is not None

    @property
    def can_go_on(self) -> bool:
        return self.owed > 0 and bool(self._steps)

    def start(self) -> bool:
        """Send the next step; return whether it ends the transaction."""
        self.owed -= 1
        self._running = self._thread.submit(self._steps.pop(0), self._connection)
        return not self._steps

    def finished(self, *, within: float) -> bool:
        if self._running is None:
            return True
        if not wait([self._running], within).done:
            return False
        try:
            self.outcome.answers.append(self._running.result())
        except psycopg.errors.DeadlockDetected as error:
            raise AssertionError(f"deadlock in {self.outcome.script.name}: {error}") from error
        except psycopg.Error as error:
            # The transaction is aborted: skip to the end of the script, which ends it.
            self.outcome.error = error
            del self._steps[:-1]
        self._running = None
        return True


def _commit(connection: Connection) -> None:
    connection.commit()


def _roll_back(connection: Connection) -> None:
    connection.rollback()
