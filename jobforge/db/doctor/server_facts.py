"""Facts about the server that a process checks before it starts work."""

from dataclasses import dataclass

from jobforge.calls.call import Call, query
from jobforge.calls.results import Rows


@dataclass(frozen=True, slots=True)
class Inspection:
    """The server, this login's rights, and the timeouts (ms) of the engine's sessions."""

    version: int  # server_version_num: 180004 is 18.4
    user: str
    is_superuser: bool
    bypasses_rls: bool
    owns_tables: bool
    is_service: bool  # may pass a tenant as an argument without a setting
    has_schema: bool
    is_replica: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    default_isolation: str
    statement_timeout_ms: int
    lock_timeout_ms: int
    idle_in_transaction_timeout_ms: int
    is_behind_pooler: bool


def inspect(announced_pid: int) -> Call[Inspection]:
    """Return the query. A pooler announces a process ID other than the backend's actual one."""
    return query(
        """
        select current_setting('server_version_num')::integer, session_user::text, r.rolsuper,
               r.rolbypassrls,
               exists (select from pg_catalog.pg_class as c
                        where c.relnamespace = to_regnamespace('jobforge')
                          and pg_catalog.pg_has_role(session_user, c.relowner, 'usage')),
               exists (select from pg_catalog.pg_roles as s where s.rolname = 'jobforge_service'
                          and pg_catalog.pg_has_role(session_user, s.oid, 'usage')),
               to_regnamespace('jobforge') is not null, pg_catalog.pg_is_in_recovery(),
               current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
               current_setting('synchronous_commit'),
               current_setting('default_transaction_isolation'),
               (select setting::integer from pg_catalog.pg_settings
                 where name = 'statement_timeout'),
               (select setting::integer from pg_catalog.pg_settings
                 where name = 'lock_timeout'),
               (select setting::integer from pg_catalog.pg_settings
                 where name = 'idle_in_transaction_session_timeout'),
               pg_catalog.pg_backend_pid() <> %s::integer
          from pg_catalog.pg_roles as r
         where r.rolname = session_user
        """,
        (announced_pid,),
        _inspection,
    )


def _inspection(rows: Rows) -> Inspection:
    return Inspection(*rows[0])
