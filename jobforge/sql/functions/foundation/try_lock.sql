-- Takes a lock of the installation until the transaction ends, as acquire_lock does, but returns
-- false if another transaction holds it.
create or replace function jobforge_private.try_lock(p_name text) returns boolean
language plpgsql
as $$
declare
    v_nil constant uuid := '00000000-0000-0000-0000-000000000000';
begin
    perform from jobforge.locks as l
      where l.tenant_id = v_nil and l.name = p_name
        for update skip locked;
    if found then
        return true;
    elsif exists (select from jobforge.locks as l
                   where l.tenant_id = v_nil and l.name = p_name) then
        return false;
    end if;
    insert into jobforge.locks (tenant_id, name) values (v_nil, p_name)
    on conflict do nothing;
    return found;
end $$;
