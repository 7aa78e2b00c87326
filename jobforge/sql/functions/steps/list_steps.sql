-- Returns the steps of a job, oldest first, and then its current wait. State: `done`, `waiting`, or
-- `timed_out` for an event that was not emitted in time. Raises JF001, JF004, JF006, JF014.
create or replace function jobforge.list_steps(p_job_id uuid, p_tenant_id uuid default null)
returns table (
    kind text, name text, index integer, state text, result jsonb, lease bigint, at timestamptz,
    until timestamptz, match jsonb, jobs uuid[]
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    if not exists (select from jobforge.all_jobs as a
                    where a.tenant_id = v_tenant and a.id = p_job_id) then
        perform jobforge_private.refuse('JF004', 'Job not found',
            jsonb_build_object('job_id', p_job_id));
    end if;
    return query
    select s.kind, s.name, s.index,
           case when s.kind = 'event' and s.result is null then 'timed_out' else 'done' end,
           jobforge_private.readable(s.result), s.lease, s.at, null::timestamptz, null::jsonb,
           null::uuid[]
      from jobforge.steps as s
     where s.tenant_id = v_tenant and s.job_id = p_job_id
     order by s.at, s.index;
    return query
    select w.kind, w.name, w.index, 'waiting', null::jsonb, w.lease, w.since, w.expires_at,
           jobforge_private.readable(w.match), w.jobs
      from jobforge.waits as w
     where w.tenant_id = v_tenant and w.job_id = p_job_id;
end $$;
