-- Locks the next jobs of one group, as many as all its limits leave free and p_quota at most.
-- Caps are counted from running rows and rates from their buckets under the locks of all
-- limits, held to the end of the transaction, so both are exact. A group that another worker is
-- claiming is skipped, never waited for. A limit that turns out to have no room, or is locked, is
-- noted in `taken` as `full <subject>`, and `locked` if any was locked. Called by pick_gated_jobs.
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
    out mended bigint
)
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_head record;
    v_limits jobforge.group_limit[];
    v_limit jobforge.group_limit;
    v_kinds text[];
    v_free bigint := p_quota;
    v_left bigint;
    v_changed text;
    v_expired tid[];
    v_misplaced tid[];
begin
    picked := '{}';
    mended := 0;
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
      from jobforge_private.limits_of(p_queue, p_tenant_id, v_head.definition,
                                      v_head.limit_key) as l;
    if p_gate is distinct from jobforge_private.gate(
           v_head.definition, v_head.limit_key, 'key' = any (v_kinds),
           'definition' = any (v_kinds), v_kinds <> '{}') then
        mended := jobforge_private.regate_rows(array(
            select j.ctid from jobforge.jobs as j
             where j.queue = p_queue and j.tenant_id = p_tenant_id and j.gate = p_gate
               and j.state = 'queued'
             order by - j.priority::integer, j.run_at, j.id limit 1000 for update skip locked));
        return;
    end if;

    foreach v_limit in array v_limits loop
        -- A claim in flight when the limit was set has started jobs that do not carry it: look for
        -- them, once a round. Those whose rows are held stay as they are and are counted below.
        v_changed := 'changed ' || case v_limit.kind
            when 'key' then 'definition:' || v_head.definition else v_limit.subject end;
        if v_limit.changed_at > v_now - interval '1 minute' and not taken ? v_changed then
            taken := taken || jsonb_build_object(v_changed, 0);
            perform jobforge_private.regate_running(
                v_limit.kind, p_queue, p_tenant_id, v_head.definition);
        end if;
        if not jobforge_private.try_lock(
                   'limit ' || (hashtextextended(v_limit.subject, 0) & 4095)) then
            taken := taken || jsonb_build_object('full ' || v_limit.subject, 0, 'locked', 0);
            return;
        end if;
    end loop;
    v_now := jobforge_private.now();
    foreach v_limit in array v_limits loop
        v_left := jobforge_private.count_left(
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
        mended := jobforge_private.cancel_expired(
            v_expired || jobforge_private.expired_rows(v_now, 1000));
    end if;
    if v_misplaced is not null then
        mended := mended + jobforge_private.regate_rows(v_misplaced);
    end if;

    if picked <> '{}' then
        foreach v_limit in array v_limits loop
            taken := taken || jsonb_build_object(v_limit.subject,
                coalesce((taken ->> v_limit.subject)::integer, 0) + cardinality(picked));
            if v_limit.rate_limit is not null then
                insert into jobforge.rate_limits as b (bucket, tokens, refilled_at)
                values (v_limit.subject, v_limit.rate_burst - cardinality(picked), v_now)
                on conflict (bucket) do update
                   set tokens = jobforge_private.tokens_of(v_limit.subject, v_limit.rate_limit,
                           v_limit.rate_period_s, v_limit.rate_burst, v_now) - cardinality(picked),
                       refilled_at = greatest(b.refilled_at, v_now);
            end if;
        end loop;
    end if;
end $$;
