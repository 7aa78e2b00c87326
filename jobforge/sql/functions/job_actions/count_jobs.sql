-- Applications call this for the dry run of an operation: returns how many jobs it would act on
-- now. Counts up to 100,000, among the newest million of the tenant's jobs. Raises JF001, JF002,
-- JF006, JF014.
create or replace function jobforge.count_jobs(
    p_kind text,
    p_filter jsonb,
    p_tenant_id uuid default null
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    perform jobforge_private.check_operation(p_kind, p_filter, '{}');
    return (select cardinality(o.ids)
              from jobforge_private.find_operation_jobs(v_tenant, p_kind, p_filter,
                       'ffffffff-ffff-ffff-ffff-ffffffffffff', 100000, 1000000) as o);
end $$;
