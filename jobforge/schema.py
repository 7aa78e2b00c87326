"""The files under sql/: their order, who runs them, and the same as text for psql and Supabase.

    roles.sql          the migrating user: roles, schema, the record of applied files
    migrations/*.sql   jobforge_owner: tables; each once, for ever the same
    functions/*.sql    jobforge_owner: all again when one of them changed
    access.sql         the migrating user: row security and grants; again when anything changed

Applying them to a database is migrate.py's.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from string import Template

SQL = Path(__file__).parent / "sql"

# "JobForge" in ASCII; any constant would do, as long as all releases agree on it.
ADVISORY_LOCK = int.from_bytes(b"JobForge")

# Unqualified names would otherwise mean what the migrating user's search_path says.
SEARCH_PATH = "pg_catalog, pg_temp"


@dataclass(frozen=True, slots=True)
class Script:
    """One file under sql/, with the role that runs it."""

    name: str
    text: str
    role: str | None

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_migration(self) -> bool:
        return self.name.startswith("migrations/")

    @property
    def is_function(self) -> bool:
        return self.name.startswith("functions/")


def scripts(root: Path = SQL) -> list[Script]:
    """All files, in the order in which they apply."""
    return [
        _read(root, root / "roles.sql", None),
        *(_read(root, path, "jobforge_owner") for path in sorted(root.glob("migrations/*.sql"))),
        *(_read(root, path, "jobforge_owner") for path in sorted(root.glob("functions/*.sql"))),
        _read(root, root / "access.sql", None),
    ]


def migration_names(root: Path = SQL) -> set[str]:
    """The files that change tables, of which a database never loses one."""
    return {path.relative_to(root).as_posix() for path in root.glob("migrations/*.sql")}


def render_sql(root: Path = SQL) -> str:
    """One file for `psql -v ON_ERROR_STOP=1 -f`, with the same result as `migrate`.

    It can be applied again: migrations that are recorded are skipped. So a newer file upgrades.
    """
    files = scripts(root)
    functions = ", ".join(f"'{script.name}'" for script in files if script.is_function)
    head = _HEAD.substitute(search_path=SEARCH_PATH, lock=ADVISORY_LOCK)
    tail = _TAIL.substitute(functions=functions or "''")
    return "\n".join([head, *(_rendered(script, "set local") for script in files), tail])


def write_supabase(folder: Path, root: Path = SQL) -> list[Path]:
    """Writes Supabase migration files and returns the new ones.

    Supabase applies each version once, in order. So a file that is there already is left alone, and
    one that changed comes again under a new version, after all others in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, files in _supabase_files(scripts(root)):
        text = "\n".join(_rendered(script, "set") for script in files)
        # Grants must follow whatever is new before them.
        if text == _newest_text(folder, name) and not (written and name == "access"):
            continue
        path = folder / f"{_next_version(folder)}_jobforge_{name}.sql"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _read(root: Path, path: Path, role: str | None) -> Script:
    return Script(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"), role)


_HEAD = Template("""\
-- The schema of JobForge as one file. Apply it with: psql -v ON_ERROR_STOP=1 -f FILE
-- It can be applied again; what jobforge.migrations records is not repeated.
begin isolation level read committed;
set local search_path = $search_path;
set local statement_timeout = 0;
do 'begin perform pg_catalog.pg_advisory_xact_lock($lock); end';
set local lock_timeout = '5s';
""")

_TAIL = Template("""\
set role jobforge_owner;
delete from jobforge.migrations
where name like 'functions/%' and name not in ($functions);
reset role;
commit;
""")

# A migration runs when it is not recorded; a recorded one must be the same file.
_MIGRATION = Template("""\
-- $name
$set role $role;
do $$once$$
declare
    v_checksum text := (select m.checksum from jobforge.migrations as m where m.name = '$name');
begin
    if v_checksum = '$checksum' then
        return;
    elsif v_checksum is not null then
        raise exception 'changed after it was applied: $name';
    end if;
    execute $quote
$text
$quote;
    insert into jobforge.migrations (name, checksum) values ('$name', '$checksum');
end $$once$$;
reset role;
""")

_FUNCTION = Template("""\
-- $name
$set role $role;
$set check_function_bodies = off;
$text
reset check_function_bodies;
set role jobforge_owner;
insert into jobforge.migrations (name, checksum) values ('$name', '$checksum')
on conflict (name) do update set checksum = excluded.checksum, applied_at = clock_timestamp();
reset role;
""")

_OTHER = Template("""\
-- $name
$text
set role jobforge_owner;
insert into jobforge.migrations (name, checksum) values ('$name', '$checksum')
on conflict (name) do update set checksum = excluded.checksum, applied_at = clock_timestamp();
reset role;
""")


def _rendered(script: Script, setter: str) -> str:
    template = _OTHER
    if script.is_migration:
        template = _MIGRATION
    elif script.is_function:
        template = _FUNCTION
    return template.substitute(
        name=script.name,
        checksum=script.checksum,
        role=script.role,
        set=setter,
        quote=_unused_quote(script.text),
        text=script.text.rstrip(),
    )


def _unused_quote(text: str) -> str:
    number = 0
    while f"$migration{number}$" in text:
        number += 1
    return f"$migration{number}$"


# Supabase orders files by this prefix; ours come after whatever the project has.
_FIRST_VERSION = datetime(2026, 1, 1, tzinfo=UTC)
_VERSION_FORMAT = "%Y%m%d%H%M%S"


def _supabase_files(files: list[Script]) -> list[tuple[str, list[Script]]]:
    migrations = [(Path(script.name).stem, [script]) for script in files if script.is_migration]
    functions = [script for script in files if script.is_function]
    return [("roles", files[:1]), *migrations, ("functions", functions), ("access", files[-1:])]


def _newest_text(folder: Path, name: str) -> str | None:
    versions = sorted(folder.glob(f"*_jobforge_{name}.sql"))
    return versions[-1].read_text(encoding="utf-8") if versions else None


def _next_version(folder: Path) -> str:
    versions = [_version(path) for path in folder.glob("*.sql")]
    newest = max((version for version in versions if version), default=None)
    following = newest + timedelta(seconds=1) if newest else _FIRST_VERSION
    return following.strftime(_VERSION_FORMAT)


def _version(path: Path) -> datetime | None:
    try:
        return datetime.strptime(path.name.split("_")[0], _VERSION_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
