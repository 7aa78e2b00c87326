"""Writes the next number to jobforge/sql/revision if a file of the schema has changed.

An older release refuses to migrate a database with a greater number (migrate.py). The file has the
number, and the checksum of the schema files.
"""

from jobforge.db.schema_files import REVISION, SQL, fingerprint, read_revision


def main() -> None:
    path = SQL / REVISION
    recorded = path.read_text(encoding="utf-8").split() if path.exists() else ["0", ""]
    current = fingerprint()
    if recorded[1] != current:
        path.write_text(f"{read_revision() + 1} {current}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
