-- Divides p_limit jobs between tenants by weight, from the cursor on: a line on which each tenant has `weight`
-- places a round, of which the next p_limit are handed out. Tenants without a place are left
-- out. Called by take_turns.
create or replace function jobforge.share_turns(
    inout turns jobforge.turn[],
    p_limit integer,
    inout cursor_tenant uuid,
    inout cursor_served bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_weights integer[] := array(
        select coalesce(w.weight, 1)
          from unnest(turns) with ordinality as t(tenant_id, rank, run_at, id, quota, turn)
          left join jobforge.tenants as w on w.id = t.tenant_id
         order by t.turn);
begin
    if turns[1].tenant_id <> cursor_tenant then
        cursor_served := 0;
    elsif cursor_served >= v_weights[1] then
        -- The tenant at the cursor has used its turn: it comes last.
        turns := turns[2:] || turns[1];
        v_weights := v_weights[2:] || v_weights[1];
        cursor_served := 0;
    end if;

    with placed as (
        select t.*, sum(t.weight) over () as round,
               sum(t.weight) over (order by t.turn) - t.weight as place
          from rows from (unnest(turns), unnest(v_weights)) with ordinality
            as t(tenant_id, rank, run_at, id, quota, weight, turn)
    ), shared as (
        select p.*,
               jobforge.places_below(cursor_served + p_limit, p.place, p.weight, p.round)
             - jobforge.places_below(cursor_served, p.place, p.weight, p.round) as share,
               (cursor_served + p_limit - 1) % p.round - p.place as last
          from placed as p
    )
    select array_agg(row(s.tenant_id, s.rank, s.run_at, s.id, s.share)::jobforge.turn order by s.turn)
               filter (where s.share > 0),
           (array_agg(s.tenant_id) filter (where s.last >= 0 and s.last < s.weight))[1],
           max(s.last + 1) filter (where s.last >= 0 and s.last < s.weight)
      into turns, cursor_tenant, cursor_served
      from shared as s;
end $$;
