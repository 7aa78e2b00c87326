-- Takes the lock of this name until the transaction ends, and waits for a transaction that holds
-- it. Without a tenant, the lock is the installation's. Locks a row of locks, because every login
-- of a database can take any advisory lock.
create or replace function jobforge_private.acquire_lock(
    p_name text,
    p_tenant_id uuid default '00000000-0000-0000-0000-000000000000'
) returns void
language plpgsql
as $$
begin
    perform from jobforge.locks as l
      where l.tenant_id = p_tenant_id and l.name = p_name
        for update;
    if not found then
        insert into jobforge.locks (tenant_id, name) values (p_tenant_id, p_name)
        on conflict do nothing;
        if not found then
            -- Another transaction inserted the row and has ended.
            perform jobforge_private.acquire_lock(p_name, p_tenant_id);
        end if;
    end if;
end $$;
