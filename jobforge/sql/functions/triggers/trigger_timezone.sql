-- Returns the time zone of a trigger: its own, or the tenant's.
create or replace function jobforge_private.trigger_timezone(t jobforge.triggers) returns text
language sql stable
as $$
    select case when t.timezone <> 'tenant' then t.timezone
                else coalesce((select n.timezone from jobforge.tenants as n
                                where n.id = t.tenant_id), 'UTC') end
$$;
