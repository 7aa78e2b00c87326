-- Divides p_limit jobs between the tenants in `heads` by weight and returns their quotas: weighted
-- round-robin from the cursor on, in rounds in which each tenant has `weight` consecutive slots.
-- p_is_even: all weights are equal. Returns the cursor for the next claim: the tenant of the last
-- slot, and how many slots of its round it has used. Called by plan_round.
create or replace function jobforge_private.divide_round(
    inout heads jobforge.tenant_head[],
    p_limit integer,
    p_is_even boolean,
    inout cursor_tenant uuid,
    inout cursor_served bigint
)
language plpgsql
as $$
declare
    v_count integer := cardinality(heads);
begin
    if p_is_even and v_count = 1 then
        -- The next branch would return the same, by a query.
        heads[1].quota := p_limit;
        cursor_tenant := heads[1].tenant_id;
        cursor_served := 1;
        return;
    end if;
    if p_is_even then
        -- Each tenant has one slot per round, and the tenant at the cursor has used its slot.
        heads := array(
            select row(t.tenant_id, t.rank, t.run_at, t.id,
                       p_limit / v_count + (t.number <= p_limit % v_count)::integer, t.row_id)
                       ::jobforge.tenant_head
              from (select u.*, row_number() over (order by
                               u.tenant_id <= divide_round.cursor_tenant, u.tenant_id) as number
                      from unnest(heads) as u) as t
             order by t.number);
        cursor_tenant := heads[(p_limit - 1) % v_count + 1].tenant_id;
        cursor_served := 1;
        return;
    end if;
    with weighed as (
        select t.*, coalesce(w.weight, 1) as weight,
               t.tenant_id = divide_round.cursor_tenant as is_at_cursor
          from unnest(heads) as t
          left join jobforge.tenants as w on w.id = t.tenant_id
    ), ordered as (
        -- The tenant at the cursor comes first, or last if it has used all slots of its round.
        select w.*, case when w.is_at_cursor and divide_round.cursor_served < w.weight
                         then divide_round.cursor_served else 0 end as served,
               row_number() over (order by
                   case when w.is_at_cursor then divide_round.cursor_served >= w.weight
                        else w.tenant_id < divide_round.cursor_tenant end,
                   w.is_at_cursor and divide_round.cursor_served >= w.weight, w.tenant_id) as number
          from weighed as w
    ), placed as (
        select o.*, max(o.served) over () as start, sum(o.weight) over () as round,
               sum(o.weight) over (order by o.number) - o.weight as place
          from ordered as o
    ), shared as (
        select p.*,
               jobforge_private.round_robin_share(p.start + p_limit, p.place, p.weight, p.round)
               - jobforge_private.round_robin_share(p.start, p.place, p.weight, p.round) as share,
               (p.start + p_limit - 1) % p.round - p.place as last
          from placed as p
    )
    select array_agg(
               row(s.tenant_id, s.rank, s.run_at, s.id, s.share, s.row_id)::jobforge.tenant_head
               order by s.number),
           (array_agg(s.tenant_id) filter (where s.last >= 0 and s.last < s.weight))[1],
           max(s.last + 1) filter (where s.last >= 0 and s.last < s.weight)
      into heads, cursor_tenant, cursor_served
      from shared as s;
end $$;
