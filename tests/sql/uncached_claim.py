"""Claims by a session that remembers of those before what a test says: nothing, if it says nothing.

When finding jobs was slow twice in a row, a session remembers for up to a second where they began,
and may miss others meanwhile. A busy machine is slow at random, so whoever says what a claim must
find makes the session forget first.
"""

import json
from typing import Any
from uuid import UUID

from cluster import Connection
from sql import engine
from sql.engine import Row

remembered: dict[str, Any] = {}  # of the queue


def claim(conn: Connection, worker: UUID, queue: str = "default", **options: Any) -> list[Row]:
    """As engine.claim."""
    cursors = json.dumps({queue: remembered})
    conn.execute("select set_config('jobforge.cursors', %s, false)", (cursors,))
    return engine.claim(conn, worker, queue, **options)
