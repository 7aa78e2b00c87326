"""Changes functions of the test's own database: a guard taken out, a pause put in.

Shows that a test fails when what it guards is gone, and forces races inside one function call.
"""

from cluster import Connection

# Any number that the engine's own advisory locks, hashes of names, do not use.
_GATE = 4_711_000_815


def mutate(conn: Connection, function: str, guard: str, instead: str) -> None:
    """Replaces a passage of a function's source; the passage must be there."""
    [row] = conn.execute(
        """
        select pg_get_functiondef(p.oid) as source from pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.proname = %s
        """,
        [function],
    ).fetchall()
    source = row["source"]
    assert guard in source, f"{function} has no {guard!r}: the mutation says nothing"
    conn.execute(source.replace(guard, instead).encode())


def make_pausable(conn: Connection) -> None:
    """Makes `pause_at_reading` work: jobforge_private.now() can then be made to wait at a gate."""
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
    """This session will wait at the gate when it reads the clock for the nth time from now."""
    conn.execute("select set_config('test.pause_at', %s, false)", [str(reading)])


def close_gate(conn: Connection) -> None:
    conn.execute("select pg_advisory_lock(%s)", [_GATE])


def open_gate(conn: Connection) -> None:
    conn.execute("select pg_advisory_unlock(%s)", [_GATE])
