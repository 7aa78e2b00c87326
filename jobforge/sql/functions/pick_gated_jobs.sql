-- Locks the next jobs of one tenant that are under limits, p_quota at most: best job first among
-- the groups (gates) it has, which are tried from the gate of the cursor on and round once.
-- Groups whose best job comes after p_before_… (the tenant's best plain job) are left for later.
-- Stops after `groups` groups that gave jobs, or 1,000 that did not. `taken` carries what this
-- round has picked so far, by subject. Called by pick_round.
create or replace function jobforge.pick_gated_jobs(
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
    out mended bigint
)
language plpgsql
as $$
declare
    v_start text := cursor_gate;
    v_wrapped boolean := false;
    v_visits integer := 0;
    v_gates text[];
    v_gate text;
    v_rows tid[];
    v_mended bigint;
begin
    picked := '{}';
    mended := 0;
    while v_visits < 1000 and groups > 0 and cardinality(picked) < p_quota loop
        v_gates := array(
            with recursive heads as (
                (select j.gate, - j.priority::integer as rank, j.run_at, j.id
                   from jobforge.jobs as j
                  where j.queue = p_queue and j.tenant_id = p_tenant_id
                    and j.state = 'queued' and j.gate is not null and j.gate > cursor_gate
                  order by j.gate, - j.priority::integer, j.run_at, j.id limit 1)
                union all
                select n.*
                  from heads as h
                 cross join lateral (
                    select j.gate, - j.priority::integer as rank, j.run_at, j.id
                      from jobforge.jobs as j
                     where j.queue = p_queue and j.tenant_id = p_tenant_id
                       and j.state = 'queued' and j.gate is not null and j.gate > h.gate
                     order by j.gate, - j.priority::integer, j.run_at, j.id limit 1) as n
            )
            select f.gate
              from (select * from heads limit 32) as f
             where (not v_wrapped or f.gate <= v_start)
               and (p_before_rank is null or (f.rank, f.run_at) <= (p_before_rank, p_before_run_at))
             order by f.rank, f.run_at, f.id);
        if v_gates = '{}' then
            exit when v_wrapped or v_start = '';
            v_wrapped := true;
            cursor_gate := '';
            continue;
        end if;
        foreach v_gate in array v_gates loop
            exit when groups <= 0 or cardinality(picked) >= p_quota;
            select g.picked, g.taken, g.mended into v_rows, taken, v_mended
              from jobforge.pick_group(p_queue, p_tenant_id, v_gate, p_quota - cardinality(picked),
                                       p_definitions, p_limited,
                                       p_before_rank, p_before_run_at, taken) as g;
            mended := mended + v_mended;
            if v_rows <> '{}' then
                picked := picked || v_rows;
                groups := groups - 1;
            end if;
        end loop;
        cursor_gate := (select max(g) from unnest(v_gates) as g);
        v_visits := v_visits + cardinality(v_gates);
    end loop;
end $$;
