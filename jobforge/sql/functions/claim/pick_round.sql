-- Runs one round of a claim over a queue: decides which tenants it serves (plan_round), and locks
-- the next jobs of each. A tenant's jobs with a gate compete with its ungated ones by priority and
-- due time. Called by claim_jobs, which starts the jobs in `picked`.
-- p_width is the number of jobs to share between tenants, p_limit the number of rows to lock.
-- p_is_even: an earlier round of this claim found nothing, so this one asks tenants regardless of
-- weight and order. `whole`: the queue has no other job that may start, so the claim need not run
-- another round. `corrected` is how many rows were canceled, deferred or given another gate.
-- Three ways to find jobs, the cheapest first:
--   pick_small_backlog  all ready jobs, if the last round left none behind
--   pick_first_jobs     the head of each tenant, by the row that the scan has just read
--   pick_ready_jobs     the next jobs of each tenant from its head on
-- pick_gated_round comes before the last two where jobs with a gate may start.
-- Locks jobs and limits; skips rows that other transactions hold.
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
    out heads jobforge.tenant_head[],
    out picked tid[],
    out corrected bigint,
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
    v_plan record;
    v_gated record;
    v_exhausted integer;  -- tenants with no other job that may start
    v_ready jobforge.ready_jobs;
begin
    if v_is_free and p_tenants is null and (cursor -> 'small')::boolean then
        v_start := clock_timestamp();
        picked := jobforge_private.pick_small_backlog(p_queue, p_limit, p_definitions);
        if picked is null or clock_timestamp() > v_start + interval '1 ms' then
            cursor := cursor - 'small';
        end if;
        if picked is not null then
            whole := true;
            return;
        end if;
    end if;

    v_plan := jobforge_private.plan_round(
        p_queue, p_width, p_tenants, p_is_even, p_is_even or not p_limited.weighted, p_limited,
        cursor);
    p_limited.full_definitions := v_plan.full_definitions;
    heads := v_plan.heads;
    complete := v_plan.complete;
    gated := v_plan.gated;
    cursor := v_plan.cursor;
    picked := '{}';
    corrected := 0;

    if gated then
        v_gated := jobforge_private.pick_gated_round(
            p_queue, p_limit, p_definitions, p_limited, p_is_even,
            coalesce(cursor ->> 'gate', ''), heads, groups);
        heads := v_gated.heads;
        groups := v_gated.groups;
        picked := v_gated.picked;
        corrected := v_gated.corrected;
        v_exhausted := v_gated.exhausted;
        cursor := cursor || jsonb_build_object('gate', v_gated.gate);
    end if;

    if v_is_free and not gated and not p_is_even and not p_limited.weighted
       and p_definitions is null and cardinality(heads) >= p_limit and heads[1].row_id is not null
    then
        picked := jobforge_private.pick_first_jobs(p_queue, heads[: p_limit]);
    end if;
    if heads <> '{}' and (gated and cardinality(picked) < p_limit or picked = '{}') then
        v_ready := jobforge_private.pick_ready_jobs(
            p_queue, p_limit - cardinality(picked), p_definitions, p_limited,
            cursor ? 'heads_until', heads);
        picked := picked || v_ready.picked;
        corrected := corrected + v_ready.corrected;
    end if;
    if p_definitions is not null and heads <> '{}' and v_ready.has_front is not true then
        corrected := corrected
            + jobforge_private.defer_unserved_jobs(p_queue, heads[1], p_definitions);
    end if;
    if corrected > 0 or picked = '{}'
       and coalesce((cursor ->> 'idle_until')::timestamptz < clock_timestamp(), true) then
        cursor := cursor - 'heads_until';
    elsif cursor ? 'heads_until' then
        -- Printing many heads takes longer than passing a few dead entries, so they are not stored
        -- in every round.
        if cardinality((v_plan.remembered).tenants) < 100 or v_plan.is_scanned
           or random() < 0.25 then
            perform jobforge_private.store_heads(
                'heads', p_queue,
                jobforge_private.advance_heads(v_plan.remembered, v_ready.reached));
        end if;
    end if;
    whole := complete and corrected = 0 and cardinality(picked) < p_limit
             and case when gated then picked <> '{}' and v_exhausted = cardinality(heads)
                      else heads = '{}' or cardinality(heads) = 1 and picked <> '{}' end;
    if whole and not gated and not (cursor -> 'slow')::boolean then
        cursor := cursor || '{"small": true}';
    end if;
end $$;
