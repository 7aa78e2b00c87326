"""Claims by a session that remembers nothing of those before.

When finding jobs was slow twice in a row, a session remembers for up to a second where they began,
and may miss others meanwhile. A busy machine is slow at random, so whoever says what a claim must
find makes the session forget first.
"""

from typing import Any
from uuid import UUID

from cluster import Connection
from sql import engine
from sql.engine import Row


def claim(conn: Connection, worker: UUID, queue: str = "default", **options: Any) -> list[Row]:
    """As engine.claim."""
    conn.execute("set jobforge.cursors = ''")
    return engine.claim(conn, worker, queue, **options)
