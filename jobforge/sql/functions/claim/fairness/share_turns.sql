-- Divides p_limit jobs between tenants by weight, from the cursor on: a line on which each tenant
-- has `weight` places a round, of which the next p_limit are handed out. Called by take_turns.
create or replace function jobforge_private.share_turns(
    inout turns jobforge.turn[],
    p_limit integer,
    p_is_even boolean,
    inout cursor_tenant uuid,
    inout cursor_served bigint
)
language plpgsql
as $$
declare
    v_count integer := cardinality(turns);
begin
    if p_is_even and v_count = 1 then
        turns[1].quota := p_limit;
        cursor_tenant := turns[1].tenant_id;
        cursor_served := 1;
        return;
    end if;
    if p_is_even then
        -- As it mostly is: the tenant at the cursor has had its turn.
        turns := array(
            select row(t.tenant_id, t.rank, t.run_at, t.id,
                       p_limit / v_count + (t.turn <= p_limit % v_count)::integer, t.row_id)
                       ::jobforge.turn
              from (select u.*, row_number() over (order by
                               u.tenant_id <= share_turns.cursor_tenant, u.tenant_id) as turn
                      from unnest(turns) as u) as t
             order by t.turn);
        cursor_tenant := turns[(p_limit - 1) % v_count + 1].tenant_id;
        cursor_served := 1;
        return;
    end if;
    with weighed as (
        select t.*, coalesce(w.weight, 1) as weight,
               t.tenant_id = share_turns.cursor_tenant as is_at_cursor
          from unnest(turns) as t
          left join jobforge.tenants as w on w.id = t.tenant_id
    ), ordered as (
        -- The tenant at the cursor comes first, or last if it has used its turn.
        select w.*, case when w.is_at_cursor and share_turns.cursor_served < w.weight
                         then share_turns.cursor_served else 0 end as served,
               row_number() over (order by
                   case when w.is_at_cursor then share_turns.cursor_served >= w.weight
                        else w.tenant_id < share_turns.cursor_tenant end,
                   w.is_at_cursor and share_turns.cursor_served >= w.weight, w.tenant_id) as turn
          from weighed as w
    ), placed as (
        select o.*, max(o.served) over () as start, sum(o.weight) over () as round,
               sum(o.weight) over (order by o.turn) - o.weight as place
          from ordered as o
    ), shared as (
        select p.*, jobforge_private.places_below(p.start + p_limit, p.place, p.weight, p.round)
                  - jobforge_private.places_below(p.start, p.place, p.weight, p.round) as share,
               (p.start + p_limit - 1) % p.round - p.place as last
          from placed as p
    )
    select array_agg(row(s.tenant_id, s.rank, s.run_at, s.id, s.share, s.row_id)::jobforge.turn
                     order by s.turn),
           (array_agg(s.tenant_id) filter (where s.last >= 0 and s.last < s.weight))[1],
           max(s.last + 1) filter (where s.last >= 0 and s.last < s.weight)
      into turns, cursor_tenant, cursor_served
      from shared as s;
end $$;
