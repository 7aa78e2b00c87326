"""Writes tests/upgrades/initial.sql.gz, the schema from which the upgrade tests start.

The snapshot is the output of `jobforge db sql`. It must not change after the first release, because
databases of that release exist. Until then, run this script after editing a migration.
"""

import gzip
from pathlib import Path

from jobforge.db.schema_files import render_sql

SNAPSHOT = Path(__file__).parent.parent / "tests" / "upgrades" / "initial.sql.gz"


def main() -> None:
    SNAPSHOT.parent.mkdir(exist_ok=True)
    SNAPSHOT.write_bytes(gzip.compress(render_sql().encode(), mtime=0))


if __name__ == "__main__":
    main()
