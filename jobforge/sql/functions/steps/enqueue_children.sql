-- Workers call this for a running job that enqueues jobs as a durable step: jobs and step are
-- stored together or not at all. Repeated with the same name and index, in this or a later attempt,
-- it returns the jobs of the first call. Otherwise as enqueue_jobs; the jobs' source is `workflow`,
-- their source_ref the job. Locks the job. Raises JF003 if the lease is not held, JF002 for the
-- step, and what enqueue_jobs raises.
create or replace function jobforge.enqueue_children(
    p_worker_id uuid,
    p_job_id uuid,
    p_lease bigint,
    p_name text,
    p_index integer,
    p_jobs jsonb,
    p_tenant_id uuid default null
) returns table (index integer, job_id uuid, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_made jsonb;
begin
    if jobforge_private.is_valid_wait(jsonb_build_object('kind', 'sleep', 'name', p_name, 'index',
                                                         p_index))
       is not true then
        perform jobforge_private.refuse('JF002',
            'Each step must have a name of 1 to 200 characters and an index', '{"field": "name"}');
    end if;
    update jobforge.jobs as j
       set flags = j.flags | 4
     where j.tenant_id = v_tenant and j.id = p_job_id
       and j.state || '' = 'running' and j.worker_id = p_worker_id and j.lease = p_lease;
    if not found then
        perform jobforge_private.refuse('JF003', 'The lease of this job is lost',
            jsonb_build_object('job_id', p_job_id));
    end if;
    select s.result into v_made
      from jobforge.steps as s
     where s.tenant_id = v_tenant and s.job_id = p_job_id and s.kind = 'enqueue'
       and s.name = p_name and s.index = p_index;
    if not found then
        select jsonb_agg(jsonb_build_array(e.job_id, e.status) order by e.index) into v_made
          from jobforge.enqueue_jobs(p_jobs, v_tenant) as e;
        update jobforge.jobs as j
           set source = 'workflow', source_ref = p_job_id
          from jsonb_array_elements(v_made) as m(made)
         where j.tenant_id = v_tenant and j.id = (m.made ->> 0)::uuid
           and m.made ->> 1 = 'created' and j.state in ('scheduled', 'blocked', 'queued');
        insert into jobforge.steps (
               tenant_id, job_id, lease, at, index, bytes, kind, name, result)
        values (v_tenant, p_job_id, p_lease, jobforge_private.now(), p_index,
                coalesce(octet_length(v_made::text), 2), 'enqueue', p_name,
                coalesce(v_made, '[]'));
    end if;
    return query
    select (m.place - 1)::integer, (m.made ->> 0)::uuid, m.made ->> 1
      from jsonb_array_elements(v_made) with ordinality as m(made, place)
     order by m.place;
end $$;
