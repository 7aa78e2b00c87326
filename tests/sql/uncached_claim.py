"""Claims by a session whose memory of previous claims a test controls; by default it is empty.

When finding jobs was slow twice in a row, a session remembers for up to a second where ready jobs
began, and may miss other jobs in that time. A busy machine is slow at random, so a test that
asserts which jobs a claim finds clears the session's memory first.
"""

import json
from typing import Any
from uuid import UUID

from cluster import Connection
from sql import engine
from sql.engine import Row

remembered: dict[str, Any] = {}  # of the queue


def claim(conn: Connection, worker: UUID, queue: str = "default", **options: Any) -> list[Row]:
    """Claim as engine.claim does, after clearing the session's memory."""
    cursors = json.dumps({queue: remembered})
    conn.execute("select set_config('jobforge.cursors', %s, false)", (cursors,))
    return engine.claim(conn, worker, queue, **options)
