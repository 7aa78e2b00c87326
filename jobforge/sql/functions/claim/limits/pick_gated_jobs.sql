-- Locks the next jobs with a gate of one tenant, p_quota at most. Tries the tenant's groups (gates)
-- from cursor_gate on and then from the first, the group with the best job first. Groups without a
-- free slot are left out before any is locked (open_groups), and groups whose best job comes after
-- p_before_rank and p_before_run_at, the tenant's head, are left for later. Stops after `groups`
-- groups that gave jobs, or 1,000 groups in all. `taken` has the number of jobs picked in this
-- round by subject, and as `full <subject>` the limits that pick_group found without room.
-- `is_exhausted`: no other job of this tenant may start now. Called by pick_gated_round.
create or replace function jobforge_private.pick_gated_jobs(
    p_queue text,
    p_tenant_id uuid,
    p_quota integer,
    p_definitions text[],
    p_limited jobforge.limited,
    p_before_rank integer,
    p_before_run_at timestamptz,
    inout cursor_gate text,
    inout groups integer,
    inout taken jsonb,
    out picked tid[],
    out corrected bigint,
    out is_exhausted boolean
)
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_start text := cursor_gate;
    v_wrapped boolean := false;
    v_visits integer := 0;
    v_open jobforge.open_group[];
    v_group jobforge.open_group;
    v_rows tid[];
    v_corrected bigint;
begin
    picked := '{}';
    corrected := 0;
    is_exhausted := false;
    while v_visits < 1000 and groups > 0 and cardinality(picked) < p_quota loop
        v_open :=
            jobforge_private.open_groups(p_queue, p_tenant_id, cursor_gate, 32, p_limited, v_now);
        if v_open = '{}' then
            is_exhausted := v_wrapped or v_start = '';
            exit when is_exhausted;
            v_wrapped := true;
            cursor_gate := '';
            continue;
        end if;
        cursor_gate := v_open[cardinality(v_open)].gate;
        v_visits := v_visits + cardinality(v_open);
        for v_group in
            select o.*
              from unnest(v_open) as o
             where (not v_wrapped or o.gate <= v_start)
               and (p_before_rank is null or (o.rank, o.run_at) <= (p_before_rank, p_before_run_at))
             order by o.rank, o.run_at, o.id
        loop
            exit when groups <= 0 or cardinality(picked) >= p_quota
                   or taken ?| array['full queue:' || p_queue, 'full tenant:' || p_tenant_id];
            continue when taken ? ('full definition:' || v_group.definition)
                      and v_group.gate <> '*';
            select g.picked, g.taken, g.corrected into v_rows, taken, v_corrected
              from jobforge_private.pick_group(p_queue, p_tenant_id, v_group.gate,
                                               p_quota - cardinality(picked), p_definitions,
                                               p_limited, p_before_rank, p_before_run_at,
                                               taken) as g;
            corrected := corrected + v_corrected;
            if v_rows <> '{}' then
                picked := picked || v_rows;
                groups := groups - 1;
            end if;
        end loop;
        -- The groups from v_start on were tried in the first pass.
        is_exhausted := v_wrapped and cursor_gate >= v_start;
        exit when is_exhausted;
    end loop;
    is_exhausted := is_exhausted and cardinality(picked) < p_quota and groups > 0
                    and not taken ? 'locked';
end $$;
