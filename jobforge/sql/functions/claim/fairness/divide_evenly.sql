-- Divides p_limit jobs between the tenants in p_heads: each has one slot per round, and the tenant
-- at the cursor has used its slot of this round. Returns the heads with their quotas in the order
-- of the slots, so the last job goes to number (p_limit - 1) % tenants + 1. Called by divide_round.
create or replace function jobforge_private.divide_evenly(
    p_heads jobforge.tenant_head[],
    p_limit integer,
    p_cursor uuid
) returns jobforge.tenant_head[]
language plpgsql
as $$
declare
    v_tenants integer := cardinality(p_heads);
begin
    return array(
        select row(h.tenant_id, h.rank, h.run_at, h.id,
                   p_limit / v_tenants + (h.number <= p_limit % v_tenants)::integer, h.row_id)
                   ::jobforge.tenant_head
          from (select u.*, row_number() over (
                           order by u.tenant_id <= p_cursor, u.tenant_id) as number
                  from unnest(p_heads) as u) as h
         order by h.number);
end $$;
