-- Returns the notes of a job, oldest first: progress, log lines, custom events and operator
-- actions. p_after is the time of the last note that the caller has; p_kinds selects kinds. Raises
-- JF001, JF002, JF004, JF006, JF014.
create or replace function jobforge.list_notes(
    p_job_id uuid,
    p_after timestamptz default null,
    p_kinds text[] default null,
    p_limit integer default 200,
    p_tenant_id uuid default null
) returns table (at timestamptz, kind text, actor text, data jsonb)
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
    perform jobforge_private.check_limit(p_limit, 1000);
    return query
    select n.at, n.kind, n.actor, jobforge_private.readable(n.data, 67108864 / p_limit)
      from jobforge.job_events as n
     where n.tenant_id = v_tenant and n.job_id = p_job_id
       and n.at > coalesce(p_after, '-infinity')
       and (p_kinds is null or n.kind = any (p_kinds))
     order by n.at
     limit p_limit;
    if not found and not exists (select from jobforge.all_jobs as a
                                  where a.tenant_id = v_tenant and a.id = p_job_id) then
        perform jobforge_private.refuse('JF004', 'Job not found',
            jsonb_build_object('job_id', p_job_id));
    end if;
end $$;
