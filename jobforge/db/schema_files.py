"""The SQL files of the schema, the role that runs each, and their export for psql and Supabase.

    roles.sql          run by the migrating user: roles
    schema.sql         run by the migrating user: schemas, the record of applied files
    migrations/*.sql   run by jobforge_owner: tables; applied once and never changed
    functions/**/*.sql run by jobforge_owner: all reapplied when one has changed; folders by subject
    access.sql         run by the migrating user: owners, policies, grants; after every change
    revision           a number that grows with every change of these files

migrate.py applies them to a database.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from string import Template

from jobforge.errors import MigrationError

SQL = Path(__file__).parents[1] / "sql"

# "JobForge" in ASCII; any constant works if all releases use the same one.
ADVISORY_LOCK = int.from_bytes(b"JobForge")

# Otherwise the migrating user's search_path would resolve unqualified names.
SEARCH_PATH = "pg_catalog, pg_temp"


ROLES = "roles.sql"
GUIDE = "00_README.sql"  # describes the functions of its folder; comments only, never applied
REVISION = "revision"  # the file, and the name of its row in jobforge.migrations


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


def read_scripts(root: Path = SQL) -> list[Script]:
    """Return all files in order of application."""
    return [
        _read(root, root / ROLES, None),
        _read(root, root / "schema.sql", None),
        *(_read(root, path, "jobforge_owner") for path in sorted(root.glob("migrations/*.sql"))),
        *(_read(root, path, "jobforge_owner") for path in function_files(root)),
        _read(root, root / "access.sql", None),
    ]


def function_files(root: Path = SQL) -> list[Path]:
    """Return the function files, one function each."""
    return [path for path in sorted(root.glob("functions/**/*.sql")) if path.name != GUIDE]


def migration_names(root: Path = SQL) -> set[str]:
    """Return the names of the migrations; an up-to-date database has a record of each."""
    return {path.relative_to(root).as_posix() for path in root.glob("migrations/*.sql")}


def read_revision(root: Path = SQL) -> int:
    """Return the revision of these files, which grows with every change; 0 if the file is missing.

    In the file `revision`, the number is followed by the checksum of the files. A test compares
    that checksum, and `make pages` increments the number.
    """
    path = root / REVISION
    return int(path.read_text(encoding="utf-8").split()[0]) if path.exists() else 0


def fingerprint(root: Path = SQL) -> str:
    """Return one checksum of all files."""
    lines = "".join(f"{script.name} {script.checksum}\n" for script in read_scripts(root))
    return hashlib.sha256(lines.encode()).hexdigest()


def render_sql(root: Path = SQL) -> str:
    """Return one file for `psql -v ON_ERROR_STOP=1 -f` that does the same as `migrate --repair`.

    It is idempotent, because it skips recorded migrations; a newer file upgrades the database.
    """
    files = read_scripts(root)
    functions = ", ".join(f"'{script.name}'" for script in files if script.is_function)
    head = _HEAD.substitute(search_path=SEARCH_PATH, one_at_a_time=SERIALIZE_MIGRATIONS)
    tail = _TAIL.substitute(functions=functions or "''")
    number = read_revision(root)
    parts = [
        *map(_render_script, files[:2]),
        _GUARD.substitute(revision=number),
        *(_render_script(script) for script in files if script.is_migration),
        _render_functions(files),
        _render_access_and_records(files, number),
    ]
    return "\n".join([head, *parts, tail])


def write_supabase(folder: Path, root: Path = SQL) -> list[Path]:
    """Write Supabase migration files and return the new ones.

    Supabase applies each version once, in order. So existing files are left alone, and a changed
    file is written again under a new version after all others in the folder. Raises MigrationError
    if a newer release wrote the folder's files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_newer_folder(folder, read_revision(root))
    written: list[Path] = []
    for name, text in _supabase_files(read_scripts(root), read_revision(root)):
        # Grants must come after new migrations and functions.
        if text == _newest_text(folder, name) and not (written and name == "access"):
            continue
        path = folder / f"{_next_version(folder)}_jobforge_{name}.sql"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _read(root: Path, path: Path, role: str | None) -> Script:
    return Script(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"), role)


# Makes a second migration wait for the first. Before the first installation only an advisory lock
# is possible, which any login can take and so block the installation. Afterwards it is a table
# lock, which only the table's owner can take. Without rights on the table, as after a restore, the
# migration continues and reports that. A query reads the catalog, because to_regclass would return
# its cached result after the wait.
SERIALIZE_MIGRATIONS = """\
do $$
declare
    v_is_there constant text :=
        'select exists (select from pg_catalog.pg_class as c '
        'join pg_catalog.pg_namespace as n on n.oid = c.relnamespace '
        'where n.nspname = ''jobforge'' and c.relname = ''migrations'' '
        'and pg_catalog.has_table_privilege(c.oid, ''update''))';
    v_found boolean;
begin
    execute v_is_there into v_found;
    if not v_found then
        perform pg_catalog.pg_advisory_xact_lock(the_lock);
        execute v_is_there into v_found;
    end if;
    if v_found then
        lock table jobforge.migrations in share row exclusive mode;
    end if;
end $$;
""".replace("the_lock", str(ADVISORY_LOCK))

_HEAD = Template("""\
-- The schema of JobForge as one file. Apply it with: psql -v ON_ERROR_STOP=1 -f FILE
-- You can apply it again: migrations that jobforge.migrations records are skipped.
begin isolation level read committed;
set local search_path = $search_path;
set local statement_timeout = 0;
${one_at_a_time}set local lock_timeout = '5s';
""")

_TAIL = Template("""\
set role jobforge_owner;
delete from jobforge.migrations
where name like 'functions/%' and name not in ($functions);
reset role;
commit;
""")

# Runs a migration that is not recorded; a recorded one must have the same checksum.
_MIGRATION = Template("""\
-- $name
set role $role;
do $$once$$
declare
    v_checksum text := (select m.checksum from jobforge.migrations as m where m.name = '$name');
begin
    if v_checksum = '$checksum' then
        return;
    elsif v_checksum is not null then
        raise exception 'Migration file changed after it was applied: $name';
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
set role $role;
set check_function_bodies = off;
$text
reset check_function_bodies;
""")

_OTHER = Template("""\
-- $name
$text
""")

_RECORD = Template("""\
set role jobforge_owner;
insert into jobforge.migrations (name, checksum) values ('$name', '$checksum')
on conflict (name) do update set checksum = excluded.checksum, applied_at = clock_timestamp();
reset role;
""")

# An older release must not replace the functions of a newer one. Runs after schema.sql, which
# creates the record or, after a restore, makes it readable again.
_GUARD = Template("""\
set role jobforge_owner;
do $$guard$$
begin
    if (select m.checksum::integer > $revision from jobforge.migrations as m
         where m.name = 'revision') then
        raise exception 'The database is newer than this release'
              using hint = 'Upgrade JobForge';
    end if;
end $$guard$$;
reset role;
""")

# Stores each function's OID and ctid; every replacement changes the ctid.
REMEMBER_FUNCTIONS = """\
do $$
begin
    perform pg_catalog.set_config('jobforge.functions_before', coalesce((
        select pg_catalog.string_agg(p.oid || ':' || p.ctid, ' ')
          from pg_catalog.pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])), ''), false);
end $$;
"""

# A function with an unchanged ctid is from an earlier release or had another signature.
DROP_STALE_FUNCTIONS = """\
set role jobforge_owner;
do $$
declare
    v_stale text := (
        select pg_catalog.string_agg(p.oid::regprocedure::text, ', ')
          from pg_catalog.pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.oid || ':' || p.ctid = any (pg_catalog.string_to_array(
                   pg_catalog.current_setting('jobforge.functions_before'), ' '))
           and not exists (select from pg_catalog.pg_depend as d
                            where d.classid = 'pg_catalog.pg_proc'::regclass
                              and d.objid = p.oid and d.deptype = 'e'));
    v_detail text;
begin
    if v_stale is not null then
        execute 'drop routine ' || v_stale;
    end if;
    perform pg_catalog.set_config('jobforge.functions_before', '', false);
exception
    when dependent_objects_still_exist then
        get stacked diagnostics v_detail = pg_exception_detail;
        raise exception using
            errcode = '2BP01',
            message = 'Your objects use functions that this release does not have: '
                || v_detail,
            hint = 'Drop or change these objects, then migrate again.';
end $$;
reset role;
"""


def _render_script(script: Script) -> str:
    template = _OTHER
    if script.is_migration:
        template = _MIGRATION
    elif script.is_function:
        template = _FUNCTION
    text = template.substitute(
        name=script.name,
        checksum=script.checksum,
        role=script.role,
        quote=_unused_quote(script.text),
        text=script.text.rstrip(),
    )
    return text if script.is_migration else text + _render_record(script)


def _render_record(script: Script) -> str:
    """Return the statements that record a file; roles.sql runs before the record exists."""
    if script.name == ROLES:
        return ""
    return _RECORD.substitute(name=script.name, checksum=script.checksum)


def _render_functions(files: list[Script]) -> str:
    functions = [_render_script(script) for script in files if script.is_function]
    return "\n".join([REMEMBER_FUNCTIONS, *functions, DROP_STALE_FUNCTIONS])


def _render_access_and_records(files: list[Script], number: int) -> str:
    """Return access.sql and the records that had to wait for the table."""
    roles, access = files[0], files[-1]
    records = [
        _RECORD.substitute(name=ROLES, checksum=roles.checksum),
        _RECORD.substitute(name=REVISION, checksum=number),
    ]
    return "\n".join([_render_script(access), *records])


def _unused_quote(text: str) -> str:
    number = 0
    while f"$migration{number}$" in text:
        number += 1
    return f"$migration{number}$"


# Supabase orders files by this prefix; JobForge's files come after the project's.
_FIRST_VERSION = datetime(2026, 1, 1, tzinfo=UTC)
_VERSION_FORMAT = "%Y%m%d%H%M%S"


def _supabase_files(files: list[Script], number: int) -> list[tuple[str, str]]:
    migrations = [script for script in files if script.is_migration]
    return [
        ("roles", "\n".join(map(_render_script, files[:2]))),
        *((Path(script.name).stem, _render_script(script)) for script in migrations),
        ("functions", _render_functions(files)),
        ("access", _render_access_and_records(files, number)),
    ]


def _refuse_newer_folder(folder: Path, number: int) -> None:
    """Raise if the newest access file, which records the revision, is of a newer release."""
    written = re.findall(r"values \('revision', '(\d+)'\)", _newest_text(folder, "access") or "")
    if written and int(written[-1]) > number:
        raise MigrationError(
            f"The files in {folder} are newer than this release: they have revision {written[-1]}, "
            f"this release has {number}",
            hint="Upgrade JobForge",
        )


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
