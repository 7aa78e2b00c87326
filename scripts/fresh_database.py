"""A migrated, empty database for scripts that describe the schema."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from jobforge.db.migrate import migrate
from jobforge.embedded import Embedded
from jobforge.testing.cluster import SETTINGS

Connection = psycopg.Connection[dict[str, Any]]


@contextmanager
def open_fresh_database() -> Iterator[Connection]:
    """Yield a connection to a migrated database in a temporary cluster."""
    with tempfile.TemporaryDirectory(prefix="jobforge-pages-") as folder:
        Path(folder).chmod(0o755)
        embedded = Embedded(Path(folder) / "pg", settings=SETTINGS)
        try:
            with psycopg.connect(embedded.start(), row_factory=dict_row) as conn:
                migrate(conn)
                yield conn
        finally:
            embedded.stop()
