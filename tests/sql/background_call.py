"""Calls in a separate thread, so that a test can observe their lock waits."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from cluster import Connection, wait_until

T = TypeVar("T")


@contextmanager
def in_background(conn: Connection, call: Callable[[Connection], T]) -> Iterator[Future[T]]:
    """Run the call in parallel to the block. A call that still waits at the end is cancelled."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        future = thread.submit(call, conn)
        try:
            yield future
        finally:
            if not future.done():
                conn.cancel_safe()


def wait_until_blocked(observer: Connection, conn: Connection, future: Future[T]) -> None:
    """Return when the call waits for a lock; fail if it ends without waiting."""
    assert is_blocked_or_done(observer, conn, future), f"it did not wait: {future}"


def is_blocked_or_done(observer: Connection, conn: Connection, future: Future[T]) -> bool:
    """Wait until the call has ended or waits for a lock; return whether it waits for a lock."""
    pid = conn.info.backend_pid

    def is_blocked() -> bool:
        [row] = observer.execute(
            "select cardinality(pg_blocking_pids(%s)) > 0 as waits", [pid]
        ).fetchall()
        return bool(row["waits"])

    wait_until(lambda: future.done() or is_blocked())
    return not future.done()
