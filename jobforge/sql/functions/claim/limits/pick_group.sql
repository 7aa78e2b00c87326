-- Locks the next jobs of one group, as many as all its limits leave free, and p_quota at most. A
-- cap is counted from running rows and a rate limit from its token bucket, after the limits were
-- locked (lock_limits), so both are exact. A group that another worker is claiming is skipped,
-- never waited for. A limit without room, or one that is locked, is recorded in `taken` as `full
-- <subject>`, and additionally as `locked` in the second case. `corrected` counts jobs that were
-- expired or had an outdated gate. Called by pick_gated_jobs.
create or replace function jobforge_private.pick_group(
    p_queue text,
    p_tenant_id uuid,
    p_gate text,
    p_quota integer,
    p_definitions text[],
    p_limited jobforge.limited,
    p_before_rank integer,
    p_before_run_at timestamptz,
    inout taken jsonb,
    out picked tid[],
    out corrected bigint
)
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_head record;
    v_locked record;
    v_limits jobforge.group_limit[];
    v_limit jobforge.group_limit;
    v_kinds text[];
    v_free bigint := p_quota;
    v_left bigint;
    v_expired tid[];
    v_misplaced tid[];
begin
    picked := '{}';
    corrected := 0;
    select j.definition, j.limit_key into v_head
      from jobforge.jobs as j
     where j.queue = p_queue and j.tenant_id = p_tenant_id and j.gate = p_gate
       and j.state = 'queued'
     order by - j.priority::integer, j.run_at, j.id
     limit 1;
    if not found then
        return;
    end if;
    select coalesce(array_agg(row(l.*)::jobforge.group_limit), '{}'),
           coalesce(array_agg(l.kind), '{}')
      into v_limits, v_kinds
      from jobforge_private.group_limits(p_queue, p_tenant_id, v_head.definition,
                                         v_head.limit_key) as l;
    if p_gate is distinct from jobforge_private.compute_gate(
           v_head.definition, v_head.limit_key, 'key' = any (v_kinds),
           'definition' = any (v_kinds), v_kinds <> '{}') then
        corrected := jobforge_private.regate_rows(array(
            select j.ctid from jobforge.jobs as j
             where j.queue = p_queue and j.tenant_id = p_tenant_id and j.gate = p_gate
               and j.state = 'queued'
             order by - j.priority::integer, j.run_at, j.id limit 1000 for update skip locked));
        return;
    end if;

    v_locked := jobforge_private.lock_limits(
        v_limits, p_queue, p_tenant_id, v_head.definition, v_now, taken);
    taken := v_locked.taken;
    if not v_locked.is_locked then
        return;
    end if;
    v_now := jobforge_private.now();
    foreach v_limit in array v_limits loop
        v_left := jobforge_private.count_startable_jobs(
            v_limit, p_queue, p_tenant_id, v_head.definition, v_head.limit_key,
            coalesce((taken ->> v_limit.subject)::integer, 0), v_now);
        if v_left <= 0 then
            taken := taken || jsonb_build_object('full ' || v_limit.subject, 0);
            return;
        end if;
        v_free := least(v_free, v_left);
    end loop;

    with candidates as materialized (
        select j.ctid as row_id, j.expires_at <= v_now and j.started_at is null as is_expired,
               p_gate = '*' and (j.definition = any (p_limited.definitions)
                   or j.limit_key is not null
                      and j.definition = any (p_limited.definitions_by_key)) as is_misplaced
          from jobforge.jobs as j
         where j.queue = p_queue and j.tenant_id = p_tenant_id and j.gate = p_gate
           and j.state = 'queued'
           and (p_before_rank is null
                or (- j.priority::integer, j.run_at) <= (p_before_rank, p_before_run_at))
           and (p_definitions is null or j.definition || '@' || j.version = any (p_definitions))
         order by - j.priority::integer, j.run_at, j.id
         limit v_free
           for update skip locked
    )
    select coalesce(array_agg(c.row_id) filter (where c.is_expired is not true
                        and not c.is_misplaced), '{}'),
           array_agg(c.row_id) filter (where c.is_expired),
           array_agg(c.row_id) filter (where c.is_expired is not true and c.is_misplaced)
      into picked, v_expired, v_misplaced
      from candidates as c;
    if v_expired is not null then
        corrected := jobforge_private.cancel_expired(
            v_expired || jobforge_private.lock_expired_rows(v_now, 1000));
    end if;
    if v_misplaced is not null then
        corrected := corrected + jobforge_private.regate_rows(v_misplaced);
    end if;

    if picked <> '{}' then
        taken := jobforge_private.take_tokens(v_limits, cardinality(picked), v_now, taken);
    end if;
end $$;
