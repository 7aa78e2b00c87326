-- Remembers the count of a tenant's earlier pending jobs in this session, for load_pending_count.
-- Called by check_pending_limit.
create or replace function jobforge_private.store_pending_count(
    p_tenant_id uuid,
    p_count jobforge.pending_count
) returns void
language plpgsql
as $$
declare
    v_stored text := concat_ws(' ', p_tenant_id, ceil(extract(epoch from p_count.until) * 1000),
                               p_count.before, p_count.jobs);
begin
    perform set_config(jobforge_private.pending_count_setting(p_tenant_id),
                       v_stored || ' ' || jobforge_private.sign(v_stored), false);
end $$;
