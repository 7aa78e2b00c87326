-- Whose turn it is in a queue, with each tenant's share of p_limit by weight. Shares are those of handing out
-- jobs one by one, a tenant keeping its turn for `weight` of them. Called by pick_round.
--
-- `cursor` is what this session remembers of the queue: the tenant at which the last claim stopped
-- and how much of its turn is used, so that shares hold for claims of any size; and, when
-- finding the first jobs was slow, where they began. Somebody's open transaction keeps dead
-- index entries from being cleaned, and a walk from the left end then passes all of them.
-- Claims start from the remembered places instead, for twenty times as long as the walk
-- took, a second at most: so it costs a twentieth of the time, and no job is missed for long.
create or replace function jobforge.take_turns(
    p_queue text,
    p_limit integer,
    p_tenants uuid[],
    inout cursor jsonb,
    out turns jobforge.turn[],
    out gated boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_start timestamptz := clock_timestamp();
    v_tenant uuid := coalesce((cursor ->> 'tenant')::uuid, gen_random_uuid());
    v_served bigint := coalesce((cursor ->> 'served')::bigint, 0);
    v_cost double precision;
begin
    if p_tenants is not null then
        gated := true;
        turns := array(
            select row(t, -32768, '-infinity', '00000000-0000-0000-0000-000000000000', 0)::jobforge.turn
              from unnest(p_tenants) as t
             order by t < v_tenant, t);
    elsif (cursor ->> 'until')::timestamptz > v_start then
        gated := (cursor -> 'gated')::boolean;
        turns := (cursor ->> 'turns')::jobforge.turn[];
    else
        select f.turns, f.gated into turns, gated from jobforge.find_turns(p_queue, p_limit, v_tenant) as f;
        v_cost := extract(epoch from clock_timestamp() - v_start);
        cursor := cursor - 'until';
        if v_cost > 0.0003 and v_cost / (cardinality(turns) + 2) > 0.00003 then
            cursor := cursor || jsonb_build_object(
                'until', v_start + make_interval(secs => v_cost + least(1, 20 * v_cost)));
        end if;
    end if;

    if cardinality(turns) > 1 then
        select s.turns, s.cursor_tenant, s.cursor_served into turns, v_tenant, v_served
          from jobforge.share_turns(turns, p_limit, v_tenant, v_served) as s;
    elsif cardinality(turns) = 1 then
        turns[1].quota := p_limit;
    end if;
    cursor := cursor || jsonb_build_object('tenant', v_tenant, 'served', v_served, 'gated', gated);
end $$;
