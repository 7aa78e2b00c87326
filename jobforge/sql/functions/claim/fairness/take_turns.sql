-- Whose turn it is in a queue: the tenants that have ready jobs, from the cursor on and round
-- once, each with its share of p_limit by weight (p_is_even: all weigh the same). p_ignores_order:
-- the tenants that are remembered had nothing, so everybody is asked. Shares are
-- those of handing out jobs one by one, a tenant keeping its turn for `weight` of them.
-- `complete` tells whether these are all such tenants and each has a share. Tenants that have only
-- jobs under limits take part while one of those may be able to start: `gated` tells whether there
-- are any, and `full_definitions` which definitions they need not be asked for. Those are looked
-- for at every claim, never remembered. Called by pick_round.
--
-- `cursor` is what this session remembers of the queue: the tenant at which the last claim
-- stopped and how much of its turn is used, so that shares hold for claims of any size; and
-- whether `places` are remembered. Somebody's open transaction keeps dead index entries from
-- being cleaned, and a walk to the first jobs then passes all of them. When that took more than
-- 5 ms twice in a row, the places of up to 2,000 tenants are remembered for two hundred times as
-- long as the walk took, 20 seconds at most. Claims start there; and the walk is repeated from
-- where it found them (walk_again), past few dead entries, so often that it takes a tenth of the
-- time, and every two seconds at least. So the first job of a tenant may be missed for ten times as
-- long as that takes, and one that walk_again cannot find for up to 20 seconds while others keep
-- the claims busy.
create or replace function jobforge_private.take_turns(
    p_queue text,
    p_limit integer,
    p_tenants uuid[],
    p_ignores_order boolean,
    p_is_even boolean,
    p_limited jobforge.limited,
    inout cursor jsonb,
    out turns jobforge.turn[],
    out places jobforge.places,
    out is_walked boolean,
    out complete boolean,
    out gated boolean,
    out full_definitions text[]
)
language plpgsql
as $$
declare
    v_start timestamptz := clock_timestamp();
    v_tenant uuid := coalesce((cursor ->> 'tenant')::uuid, gen_random_uuid());
    -- Every login can change what its session remembers.
    v_served bigint := greatest(0, least(1000, coalesce((cursor ->> 'served')::bigint, 0)));
    v_was_slow boolean := coalesce((cursor -> 'slow')::boolean, false);
    v_is_slow boolean;
    v_is_remembered boolean := coalesce(
        p_tenants is null and (cursor ->> 'until')::timestamptz > v_start
        and ((cursor -> 'complete')::boolean or not p_ignores_order), false);
    v_found record;
    v_shared record;
    v_breadth integer;
    v_cost double precision;
    v_open uuid[];
begin
    full_definitions := '{}';
    if v_is_remembered then
        is_walked := (cursor -> 'complete')::boolean
            and (cursor ->> 'again')::timestamptz < v_start;
        places := case when is_walked then jobforge_private.walk_again(p_queue)
                       else jobforge_private.recall_places('places', p_queue) end;
        -- What cannot be read is forgotten: the jobs are looked for where they are.
        if places.tenants is null then
            v_is_remembered := false;
            is_walked := null;
        end if;
    end if;
    if p_tenants is not null then
        complete := true;
        gated := true;
        full_definitions := jobforge_private.full_definitions(p_limited.definitions);
        cursor := cursor - 'until';
        turns := array(
            select row(t, -32768, '-infinity', '00000000-0000-0000-0000-000000000000', 0, null)
                       ::jobforge.turn
              from (select distinct n from unnest(p_tenants) as n) as u(t));
    elsif v_is_remembered then
        complete := (cursor -> 'complete')::boolean;
        gated := (cursor -> 'gated')::boolean;
        if is_walked then
            v_cost := extract(epoch from clock_timestamp() - v_start);
            cursor := cursor || jsonb_build_object(
                'again', v_start + make_interval(secs => least(2, 10 * v_cost)));
        end if;
        turns := jobforge_private.turns_from(places, v_tenant, p_limit + 1);
    else
        -- One more than needed: the first may have used its turn.
        v_breadth := greatest(p_limit + 1, case when v_was_slow then 2000 else 0 end);
        v_found := jobforge_private.find_turns(p_queue, v_breadth, v_tenant);
        turns := v_found.turns;
        gated := v_found.gated;
        complete := cardinality(turns) < v_breadth;
        v_cost := extract(epoch from clock_timestamp() - v_start);
        v_is_slow := v_cost > 0.005 and v_cost / (cardinality(turns) + 2) > 0.000015;
        cursor := cursor - 'until' || jsonb_build_object(
            'slow', v_is_slow, 'complete', complete, 'gated', gated);
        if v_is_slow and v_was_slow then
            is_walked := true;
            places := jobforge_private.places_of(turns);
            perform jobforge_private.keep_places(
                'walked', p_queue,
                jobforge_private.known_places(p_queue, turns, jobforge_private.now()));
            cursor := cursor || jsonb_build_object(
                'idle_until', v_start + make_interval(secs => greatest(1, 100 * v_cost)),
                'until', v_start + make_interval(secs => v_cost + least(20, 200 * v_cost)),
                'again', v_start);
        end if;
        turns := turns[1 : p_limit + 1];
    end if;
    if gated and p_tenants is null then
        full_definitions := jobforge_private.full_definitions(p_limited.definitions);
        p_limited.full_definitions := full_definitions;
        v_open := jobforge_private.open_tenants(p_queue, v_tenant, p_limit + 1, p_limited);
        gated := v_open <> '{}';
        complete := complete and cardinality(v_open) <= p_limit;
    end if;
    if v_open <> '{}' then
        turns := array(
            select row(tenant_id, coalesce(t.rank, 32768), coalesce(t.run_at, 'infinity'),
                       coalesce(t.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), 0, t.row_id)
                       ::jobforge.turn
              from unnest(turns) as t
              full join unnest(v_open) as g(tenant_id) using (tenant_id)
             order by tenant_id < v_tenant, tenant_id
             limit p_limit + 1);
    end if;
    complete := complete and cardinality(turns) <= p_limit;
    if turns <> '{}' then
        v_shared := jobforge_private.share_turns(turns, p_limit, p_is_even, v_tenant, v_served);
        turns := v_shared.turns;
        cursor := cursor || jsonb_build_object(
            'tenant', v_shared.cursor_tenant, 'served', v_shared.cursor_served);
    end if;
end $$;
