-- Refuses a call outside READ COMMITTED. Called first by public functions that finish, free, link
-- or cancel jobs, or report on a lease: they wait for a row lock and then read, in a later
-- statement, what the transaction that held the lock has done. In REPEATABLE READ and SERIALIZABLE
-- that statement still reads the snapshot of the first one and would miss it. p_what names the
-- function in the message. Takes no locks. Raises JF012.
create or replace function jobforge_private.require_read_committed(p_what text) returns void
language plpgsql
as $$
begin
    -- READ UNCOMMITTED is READ COMMITTED in Postgres.
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform jobforge_private.refuse('JF012',
            format('%s requires a READ COMMITTED transaction; this one is %s', p_what,
                   upper(current_setting('transaction_isolation'))),
            jsonb_build_object('isolation', current_setting('transaction_isolation')),
            'Call it in a separate transaction that starts with '
            || 'BEGIN ISOLATION LEVEL READ COMMITTED');
    end if;
end $$;
