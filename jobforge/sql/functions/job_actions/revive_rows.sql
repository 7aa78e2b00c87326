-- Makes dead jobs ready again. p_attempts is their new allowance, p_rate spreads them over time.
-- Returns how many. The caller has locked the rows.
create or replace function jobforge_private.revive_rows(
    p_rows tid[],
    p_attempts integer default null,
    p_rate double precision default null
) returns bigint
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_revived bigint;
    v_tenants uuid[];
    v_awaited uuid[];
begin
    with queues as (
        select distinct j.queue from jobforge.jobs as j where j.ctid = any (p_rows)
    )
    select count(jobforge_private.notify_channel('jobforge:' || q.queue)) into v_revived
      from queues as q;

    if exists (select from jobforge.jobs as j
                where j.ctid = any (p_rows) and j.flags & 4 = 4) then
        perform jobforge_private.reopen_waits(p_rows);
    end if;
    with numbered as materialized (
        select j.tenant_id, j.id,
               v_now + make_interval(secs => coalesce(
                   (row_number() over (order by j.id) - 1) / p_rate, 0)) as due_at
          from jobforge.jobs as j
         where j.ctid = any (p_rows)
    ), revived as (
        update jobforge.jobs as j
           set state = case when n.due_at <= v_now then 'queued' else 'scheduled' end,
               run_at = n.due_at,
               queued_at = case when n.due_at <= v_now then v_now end,
               finished_at = null,
               expires_at = null,
               max_attempts = j.attempt + coalesce(p_attempts, j.allowance)
          from numbered as n
         where j.tenant_id = n.tenant_id and j.id = n.id and j.state || '' = 'dead'
        returning j.tenant_id, j.id, j.flags
    )
    select count(*), array_agg(r.tenant_id) filter (where r.flags & 2 = 2),
           array_agg(r.id) filter (where r.flags & 2 = 2)
      into v_revived, v_tenants, v_awaited
      from revived as r;
    if v_awaited is not null then
        perform jobforge_private.reopen_workflows(v_tenants, v_awaited);
    end if;
    return v_revived;
end $$;
