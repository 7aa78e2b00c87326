"""Connections and cursors of psycopg."""

from typing import Any, TypeVar

from jobforge import db
from jobforge.calls import Call

T = TypeVar("T")


def run(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - a connection or a cursor of one
    return db.run(getattr(conn, "connection", conn), call)


async def arun(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - as above
    return await db.arun(getattr(conn, "connection", conn), call)
