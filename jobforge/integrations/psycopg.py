"""Runs calls on connections and cursors of psycopg."""

from typing import Any, TypeVar

from jobforge import db
from jobforge.calls import Call

T = TypeVar("T")


def run(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - a connection or cursor
    return db.run(getattr(conn, "connection", conn), call)


async def arun(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - a connection or cursor
    return await db.arun(getattr(conn, "connection", conn), call)
