-- Returns the name of the session's setting that stores the count of a tenant's pending jobs: one
-- of 64, because one session serves many tenants. Called by load_pending_count and
-- store_pending_count.
create or replace function jobforge_private.pending_count_setting(p_tenant_id uuid) returns text
language sql immutable
as $$
    select 'jobforge.pending_' || (get_byte(uuid_send(p_tenant_id), 15) & 63)
$$;
