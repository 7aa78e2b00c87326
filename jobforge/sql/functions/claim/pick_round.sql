-- One round of a claim over a queue: whose turn it is, then the next jobs of each. A tenant's
-- jobs under limits compete with its plain ones by priority and due time. p_width tenants are
-- asked for p_limit jobs. p_is_even: an earlier round of this claim found nothing, so this one
-- asks all tenants, without weights and in any order. `whole`: nothing else is ready, or nothing
-- else may start, so the groups need not be counted a second time. If the last round left nothing
-- behind, this one takes all ready jobs without computing turns. Called by claim_jobs, which starts
-- `picked`.
create or replace function jobforge_private.pick_round(
    p_queue text,
    p_limit integer,
    p_width integer,
    p_tenants uuid[],
    p_definitions text[],
    p_limited jobforge.limited,
    p_is_even boolean,
    inout cursor jsonb,
    inout groups integer,
    out turns jobforge.turn[],
    out picked tid[],
    out mended bigint,
    out complete boolean,
    out gated boolean,
    out whole boolean
)
language plpgsql
as $$
declare
    v_is_free boolean := not p_limited.tenants and not p_limited.queue
        and p_limited.definitions = '{}' and p_limited.definitions_by_key = '{}';
    v_start timestamptz;
    v_gate text := coalesce(cursor ->> 'gate', '');
    v_place jobforge.turn;
    v_took record;
    v_ready jobforge.ready_jobs;
    v_gated_rows tid[];
    v_mended bigint;
    v_taken jsonb := '{}';  -- by subject: picked, but not running yet, so not counted yet
    v_is_exhausted boolean := false;
    v_exhausted integer := 0;  -- tenants without plain jobs of which no other job may start
begin
    if v_is_free and p_tenants is null and (cursor -> 'few')::boolean then
        v_start := clock_timestamp();
        picked := jobforge_private.pick_few_jobs(p_queue, p_limit, p_definitions);
        if picked is null or clock_timestamp() > v_start + interval '1 ms' then
            cursor := cursor - 'few';
        end if;
        if picked is not null then
            whole := true;
            return;
        end if;
    end if;

    v_took := jobforge_private.take_turns(
        p_queue, p_width, p_tenants, p_is_even, p_is_even or not p_limited.weighted, p_limited,
        cursor);
    p_limited.full_definitions := v_took.full_definitions;
    turns := v_took.turns;
    complete := v_took.complete;
    gated := v_took.gated;
    cursor := v_took.cursor;
    picked := '{}';
    mended := 0;

    if gated then
        for i in 1 .. cardinality(turns) loop
            exit when cardinality(picked) >= p_limit or groups <= 0;
            continue when turns[i].quota <= 0;
            v_place := case when not p_is_even
                            then jobforge_private.first_place(p_queue, turns[i].tenant_id) end;
            select g.picked, g.cursor_gate, g.groups, g.taken, g.mended, g.is_exhausted
              into v_gated_rows, v_gate, groups, v_taken, v_mended, v_is_exhausted
              from jobforge_private.pick_gated_jobs(
                       p_queue, turns[i].tenant_id,
                       least(turns[i].quota, p_limit - cardinality(picked)),
                       p_definitions, p_limited, v_place.rank, v_place.run_at,
                       v_gate, groups, v_taken) as g;
            turns[i].quota := turns[i].quota - cardinality(v_gated_rows);
            picked := picked || v_gated_rows;
            mended := mended + v_mended;
            v_exhausted := v_exhausted
                + (v_is_exhausted and not p_is_even and v_place is null)::integer;
        end loop;
        cursor := cursor || jsonb_build_object('gate', v_gate);
    end if;

    if v_is_free and not gated and not p_is_even and not p_limited.weighted
       and p_definitions is null and cardinality(turns) >= p_limit and turns[1].row_id is not null
    then
        picked := jobforge_private.pick_first_jobs(p_queue, turns[: p_limit]);
    end if;
    if turns <> '{}' and (gated and cardinality(picked) < p_limit or picked = '{}') then
        v_ready := jobforge_private.pick_ready_jobs(
            p_queue, p_limit - cardinality(picked), p_definitions, p_limited, cursor ? 'until',
            turns);
        picked := picked || v_ready.picked;
        mended := mended + v_ready.mended;
    end if;
    if p_definitions is not null and turns <> '{}' and v_ready.has_front is not true then
        mended := mended + jobforge_private.defer_unserved(p_queue, turns[1], p_definitions);
    end if;
    if mended > 0 or picked = '{}'
       and coalesce((cursor ->> 'idle_until')::timestamptz < clock_timestamp(), true) then
        cursor := cursor - 'until';
    elsif cursor ? 'until' then
        -- Many take longer to write down than a few dead entries to pass: not every time then.
        if cardinality((v_took.places).tenants) < 100 or v_took.is_walked or random() < 0.25 then
            perform jobforge_private.keep_places(
                'places', p_queue, jobforge_private.advance_places(v_took.places, v_ready.reached));
        end if;
    end if;
    whole := complete and mended = 0 and cardinality(picked) < p_limit
             and case when gated then picked <> '{}' and v_exhausted = cardinality(turns)
                      else turns = '{}' or cardinality(turns) = 1 and picked <> '{}' end;
    if whole and not gated and not (cursor -> 'slow')::boolean then
        cursor := cursor || '{"few": true}';
    end if;
end $$;
