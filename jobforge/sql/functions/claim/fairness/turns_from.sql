-- The places of the next p_limit tenants from p_tenant on and round once, as turns.
create or replace function jobforge_private.turns_from(
    p_places jobforge.places,
    p_tenant uuid,
    p_limit integer
) returns jobforge.turn[]
language plpgsql
as $$
declare
    v_tenants uuid[] := p_places.tenants;
    v_ranks integer[] := p_places.ranks;
    v_run_ats double precision[] := p_places.run_ats;
    v_ids uuid[] := p_places.ids;
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
                   ::jobforge.turn
          from (select 1 + (v_passed + n) % v_count
                  from generate_series(0, least(p_limit, v_count) - 1) as n) as s(i));
end $$;
