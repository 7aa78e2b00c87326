-- Returns the heads of the next p_limit tenants from p_tenant on, in order of ID and then from the
-- lowest ID on. Called by plan_round and rescan_ready_tenants.
create or replace function jobforge_private.heads_from_cursor(
    p_heads jobforge.tenant_heads,
    p_tenant uuid,
    p_limit integer
) returns jobforge.tenant_head[]
language plpgsql
as $$
declare
    v_tenants uuid[] := p_heads.tenants;
    v_ranks integer[] := p_heads.ranks;
    v_run_ats double precision[] := p_heads.run_ats;
    v_ids uuid[] := p_heads.ids;
    v_count integer := coalesce(cardinality(v_tenants), 0);
    v_passed integer;
begin
    if v_count = 0 then
        return '{}';
    end if;
    v_passed := width_bucket(p_tenant, v_tenants);
    if v_tenants[v_passed] = p_tenant then
        v_passed := v_passed - 1;
    end if;
    return array(
        select row(v_tenants[i], v_ranks[i], to_timestamp(v_run_ats[i]), v_ids[i], 0, null)
                   ::jobforge.tenant_head
          from (select 1 + (v_passed + n) % v_count
                  from generate_series(0, least(p_limit, v_count) - 1) as n) as s(i));
end $$;
