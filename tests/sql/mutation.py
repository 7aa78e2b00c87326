"""Change functions of the test's database: remove a guard, insert a pause.

This shows that a test fails without the guard that it covers, and forces races within one function
call.
"""

from cluster import Connection

# Any number that the engine's own advisory locks (hashes of names) do not use.
_GATE = 4_711_000_815


def mutate(conn: Connection, function: str, guard: str, instead: str) -> None:
    """Replace a passage of a function's source; the passage must exist."""
    [row] = conn.execute(
        """
        select pg_get_functiondef(p.oid) as source from pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.proname = %s
        """,
        [function],
    ).fetchall()
    source = row["source"]
    assert guard in source, f"{function} has no {guard!r}: the mutation proves nothing"
    conn.execute(source.replace(guard, instead).encode())


def make_pausable(conn: Connection) -> None:
    """Make `pause_at_reading` work: jobforge_private.now() can then wait for a lock, the gate."""
    conn.execute(
        f"""
        create or replace function jobforge_private.now() returns timestamptz
        language plpgsql volatile
        as $$
        declare
            v_left integer := nullif(current_setting('test.pause_at', true), '');
        begin
            if v_left is not null then
                perform set_config('test.pause_at', nullif(v_left - 1, 0)::text, false);
            end if;
            if v_left = 1 then
                perform pg_advisory_lock_shared({_GATE});
                perform pg_advisory_unlock_shared({_GATE});
            end if;
            return clock_timestamp();
        end $$
        """.encode()
    )


def pause_at_reading(conn: Connection, reading: int) -> None:
    """Make this session wait at the gate when it reads the clock for the nth time from now."""
    conn.execute("select set_config('test.pause_at', %s, false)", [str(reading)])


def close_gate(conn: Connection) -> None:
    conn.execute("select pg_advisory_lock(%s)", [_GATE])


def open_gate(conn: Connection) -> None:
    conn.execute("select pg_advisory_unlock(%s)", [_GATE])
