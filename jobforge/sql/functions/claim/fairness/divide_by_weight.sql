-- Divides p_limit jobs between the tenants in `heads` by weight. The slots of a round are numbered
-- from 0: the first tenant has the first `weight` slots, the next tenant those after them, and so
-- on; after the last slot of a round, the next round follows. The tenant at the cursor comes first
-- and has used `cursor_served` of its slots; if it has used them all, it comes last. Called by
-- divide_round.
create or replace function jobforge_private.divide_by_weight(
    inout heads jobforge.tenant_head[],
    p_limit integer,
    inout cursor_tenant uuid,
    inout cursor_served bigint
)
language plpgsql
as $$
begin
    with weighted as (
        select h.*, coalesce(t.weight, 1) as weight,
               h.tenant_id = divide_by_weight.cursor_tenant as is_at_cursor
          from unnest(heads) as h
          left join jobforge.tenants as t on t.id = h.tenant_id
    ), marked as (
        select w.*, w.is_at_cursor and divide_by_weight.cursor_served >= w.weight as is_exhausted
          from weighted as w
    ), ordered as (
        select m.*, row_number() over (order by
                   case when m.is_at_cursor then m.is_exhausted
                        else m.tenant_id < divide_by_weight.cursor_tenant end,
                   m.is_exhausted, m.tenant_id) as number
          from marked as m
    ), numbered as (
        select o.*,
               sum(o.weight) over (order by o.number) - o.weight as first_slot,
               sum(o.weight) over () as slots_per_round,
               max(case when o.is_at_cursor and not o.is_exhausted
                        then divide_by_weight.cursor_served else 0 end) over () as used_slots
          from ordered as o
    ), divided as (
        -- The jobs get the slots from used_slots on. `last_slot` is the slot of the last job,
        -- counted from the tenant's first slot: it is the tenant's if it is below its weight.
        select n.*,
               jobforge_private.round_robin_share(
                   n.used_slots + p_limit, n.first_slot, n.weight, n.slots_per_round)
               - jobforge_private.round_robin_share(
                   n.used_slots, n.first_slot, n.weight, n.slots_per_round) as share,
               (n.used_slots + p_limit - 1) % n.slots_per_round - n.first_slot as last_slot
          from numbered as n
    )
    select array_agg(
               row(d.tenant_id, d.rank, d.run_at, d.id, d.share, d.row_id)::jobforge.tenant_head
               order by d.number),
           (array_agg(d.tenant_id) filter (where d.last_slot between 0 and d.weight - 1))[1],
           max(d.last_slot + 1) filter (where d.last_slot between 0 and d.weight - 1)
      into heads, cursor_tenant, cursor_served
      from divided as d;
end $$;
