-- Stores heads in a setting of this session; load_heads reads them. Called by remember_heads,
-- pick_round and rescan_ready_tenants.
create or replace function jobforge_private.store_heads(
    p_name text,
    p_queue text,
    p_heads jobforge.tenant_heads
) returns void
language plpgsql
as $$
begin
    perform set_config('jobforge.' || p_name || '_' || md5(p_queue), p_heads::text, false);
end $$;
