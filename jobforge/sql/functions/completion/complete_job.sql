-- Workers call this to report one outcome: complete_jobs for one job of this worker, also within
-- the caller's transaction. Unlike complete_jobs, waits for a transaction that has locked the job,
-- or a row that its completion needs, for as long as lock_timeout allows. Returns the new state.
-- Locks the job and the jobs that it gathers in order of (tenant_id, id). Raises JF003 if the lease
-- is lost, and JF012 outside READ COMMITTED.
create or replace function jobforge.complete_job(
    p_tenant_id uuid,
    p_job_id uuid,
    p_worker_id uuid,
    p_lease bigint,
    p_outcome jsonb default '{"outcome": "succeeded"}'
) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_tenant uuid := jobforge.tenant();
    v_outcomes jsonb :=
        jobforge_private.fail_unbounded_outcomes(jsonb_build_array(p_outcome || jsonb_build_object(
        'tenant_id', p_tenant_id, 'job_id', p_job_id, 'lease', p_lease)));
    v_answer record;
begin
    perform jobforge_private.require_read_committed('complete_job');
    -- Lock the job together with the jobs that it gathers, in one order.
    perform
       from (select o.*, p_worker_id as worker_id
               from (select p_tenant_id as tenant_id, p_job_id as job_id, p_lease as lease
                     union all
                     select w.tenant_id, w.job_id, null
                       from jobforge_private.jobs_to_gather(
                            case when jsonb_typeof(p_outcome) = 'object'
                                 then v_outcomes else '[]' end) as w) as o
              where v_tenant is null or o.tenant_id = v_tenant
              order by o.tenant_id, o.job_id) as g
       join jobforge.jobs as j on j.tenant_id = g.tenant_id and j.id = g.job_id
      where j.state || '' = 'running' and j.worker_id = g.worker_id and j.lease = g.lease
         or g.lease is null and j.state || '' <> 'blocked'
        for update of j;
    select c.status, c.state into v_answer
      from jobforge.complete_jobs(p_worker_id, v_outcomes) as c;
    if v_answer.status = 'busy' then
        select 'ok' as status, s.state into v_answer
          from jobforge_private.settle_jobs(p_worker_id, v_outcomes) as s;
    end if;
    if v_answer.status is distinct from 'ok' then
        perform jobforge_private.refuse('JF003', 'The lease of this job is lost',
            jsonb_build_object('job_id', p_job_id));
    end if;
    return v_answer.state;
end $$;
