-- Decides which tenants one round of a claim serves, and the quota of each: the tenants that have
-- ready jobs in the queue, from the cursor on, sharing p_limit jobs by weight (divide_round). The
-- shares are those of handing out jobs one by one, where a tenant with weight w gets w jobs in
-- succession. Called by pick_round. Takes no locks.
--
-- p_is_even: all weights count as equal. p_ignores_order: an earlier round found no job of the
-- remembered tenants, so a memory that has only some of the tenants is not used.
-- `complete`: these are all such tenants, and each has a quota. `gated`: some of them may be able
-- to start a job that has a gate; `full_definitions` are the definitions of which no job can start.
-- The jobs with a gate are searched for by every claim and never remembered.
--
-- `cursor` is the session's state of the queue: the tenant at which the last claim stopped, how
-- many slots of its round it used, and whether heads are remembered. Heads are remembered because
-- an old snapshot keeps dead index entries from being removed, and a scan then passes all of them.
-- After two scans in a row that took more than 2 ms, the heads of up to 2,000 tenants are
-- remembered (remember_heads), and scans start there. The heads are updated (rescan_ready_tenants)
-- as often as a tenth of the time allows, and at least every two seconds. So the first job of a
-- tenant can be missed for up to ten times the length of such an update, and a job that an update
-- cannot find for up to 20 seconds while other jobs keep the claims busy.
create or replace function jobforge_private.plan_round(
    p_queue text,
    p_limit integer,
    p_tenants uuid[],
    p_ignores_order boolean,
    p_is_even boolean,
    p_limited jobforge.limited,
    inout cursor jsonb,
    out heads jobforge.tenant_head[],
    out remembered jobforge.tenant_heads,
    out is_scanned boolean,
    out complete boolean,
    out gated boolean,
    out full_definitions text[]
)
language plpgsql
as $$
declare
    v_start timestamptz := clock_timestamp();
    v_tenant uuid := coalesce((cursor ->> 'tenant')::uuid, gen_random_uuid());
    -- Every login can change the settings of its session, so the value is clamped.
    v_served bigint := greatest(0, least(1000, coalesce((cursor ->> 'served')::bigint, 0)));
    v_was_slow boolean := coalesce((cursor -> 'slow')::boolean, false);
    v_is_slow boolean;
    v_is_remembered boolean := coalesce(
        p_tenants is null and (cursor ->> 'heads_until')::timestamptz > v_start
        and ((cursor -> 'complete')::boolean or not p_ignores_order), false);
    v_found record;
    v_kept record;
    v_shared record;
    v_breadth integer;
    v_cost_s double precision;
    v_open uuid[];
begin
    full_definitions := '{}';
    if v_is_remembered then
        is_scanned := (cursor -> 'complete')::boolean
            and (cursor ->> 'rescan_at')::timestamptz < v_start;
        remembered := case when is_scanned then jobforge_private.rescan_ready_tenants(p_queue)
                           else jobforge_private.load_heads('heads', p_queue) end;
        -- A memory that cannot be read is discarded: scan in full.
        if remembered.tenants is null then
            v_is_remembered := false;
            is_scanned := null;
        end if;
    end if;
    if p_tenants is not null then
        complete := true;
        gated := true;
        full_definitions := jobforge_private.full_definitions(p_limited.definitions);
        cursor := cursor - 'heads_until';
        heads := array(
            select row(t, -32768, '-infinity', '00000000-0000-0000-0000-000000000000', 0, null)
                       ::jobforge.tenant_head
              from (select distinct n from unnest(p_tenants) as n) as u(t));
    elsif v_is_remembered then
        complete := (cursor -> 'complete')::boolean;
        gated := (cursor -> 'gated')::boolean;
        if is_scanned then
            v_cost_s := extract(epoch from clock_timestamp() - v_start);
            cursor := cursor || jsonb_build_object(
                'rescan_at', v_start + make_interval(secs => least(2, 10 * v_cost_s)));
        end if;
        heads := jobforge_private.heads_from_cursor(remembered, v_tenant, p_limit + 1);
    else
        -- One more than needed: the first tenant may have used all slots of its round.
        v_breadth := greatest(p_limit + 1, case when v_was_slow then 2000 else 0 end);
        v_found := jobforge_private.find_ready_tenants(p_queue, v_breadth, v_tenant);
        heads := v_found.heads;
        gated := v_found.gated;
        complete := cardinality(heads) < v_breadth;
        v_cost_s := extract(epoch from clock_timestamp() - v_start);
        v_is_slow := v_cost_s > 0.002 and v_cost_s / (cardinality(heads) + 2) > 0.000015;
        cursor := cursor - 'heads_until' || jsonb_build_object(
            'slow', v_is_slow, 'complete', complete, 'gated', gated);
        if v_is_slow and v_was_slow then
            is_scanned := true;
            v_kept := jobforge_private.remember_heads(p_queue, heads, v_start, v_cost_s, cursor);
            remembered := v_kept.remembered;
            cursor := v_kept.cursor;
        end if;
        heads := heads[1 : p_limit + 1];
    end if;
    if gated and p_tenants is null then
        full_definitions := jobforge_private.full_definitions(p_limited.definitions);
        p_limited.full_definitions := full_definitions;
        v_open := jobforge_private.open_tenants(p_queue, v_tenant, p_limit + 1, p_limited);
        gated := v_open <> '{}';
        complete := complete and cardinality(v_open) <= p_limit;
    end if;
    if v_open <> '{}' then
        heads := array(
            select row(tenant_id, coalesce(t.rank, 32768), coalesce(t.run_at, 'infinity'),
                       coalesce(t.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), 0, t.row_id)
                       ::jobforge.tenant_head
              from unnest(heads) as t
              full join unnest(v_open) as g(tenant_id) using (tenant_id)
             order by tenant_id < v_tenant, tenant_id
             limit p_limit + 1);
    end if;
    complete := complete and cardinality(heads) <= p_limit;
    if heads <> '{}' then
        v_shared := jobforge_private.divide_round(heads, p_limit, p_is_even, v_tenant, v_served);
        heads := v_shared.heads;
        cursor := cursor || jsonb_build_object(
            'tenant', v_shared.cursor_tenant, 'served', v_shared.cursor_served);
    end if;
end $$;
