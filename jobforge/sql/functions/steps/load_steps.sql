-- Workers call this for a claimed job whose flags have bit 4: returns the steps of its earlier
-- attempts, an array of {kind, name, index, result}, oldest first. Ends the wait that the job was
-- in: a sleep is over, an event that was not emitted has timed out, a gather gets the results of
-- its jobs (or waits again if one of them runs again). Returns null if the lease is not held. Locks
-- the job. Raises 54000 (program_limit_exceeded) if the steps have more than 32 MiB of text in
-- total; claim_readable_jobs then ends the job.
create or replace function jobforge.load_steps(
    p_worker_id uuid,
    p_tenant_id uuid,
    p_job_id uuid,
    p_lease bigint
) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_tenant uuid := jobforge.tenant();
    v_wait jobforge.waits;
    v_gathered jsonb;
begin
    perform
       from jobforge.jobs as j
      where j.tenant_id = p_tenant_id and j.id = p_job_id
        and j.tenant_id = coalesce(v_tenant, j.tenant_id)
        and j.state || '' = 'running' and j.worker_id = p_worker_id and j.lease = p_lease
        for update;
    if not found then
        return null;
    end if;
    delete from jobforge.waits as w
     where w.tenant_id = p_tenant_id and w.job_id = p_job_id
    returning * into v_wait;
    if found then
        if v_wait.kind = 'gather' then
            v_gathered := jobforge_private.gather_results(p_tenant_id, v_wait.jobs);
        end if;
        if v_wait.kind <> 'gather' or v_gathered is not null then
            insert into jobforge.steps (
                   tenant_id, job_id, lease, at, index, bytes, kind, name, result)
            values (p_tenant_id, p_job_id, v_wait.lease, jobforge_private.now(), v_wait.index,
                    coalesce(octet_length(v_gathered::text), 0), v_wait.kind, v_wait.name,
                    v_gathered)
            on conflict do nothing;
        end if;
    end if;
    if (select sum(s.bytes) from jobforge.steps as s
         where s.tenant_id = p_tenant_id and s.job_id = p_job_id) > 33554432 then
        -- As jsonb they have six times as much at most, and jsonb_agg takes 256 MiB.
        raise program_limit_exceeded
            using message = 'The job''s steps have more than 32 MiB of JSON text';
    end if;
    return (
        select coalesce(jsonb_agg(jsonb_build_object(
                   'kind', s.kind, 'name', s.name, 'index', s.index,
                   'result', jobforge_private.readable(s.result))
                   order by s.at, s.index), '[]')
          from jobforge.steps as s
         where s.tenant_id = p_tenant_id and s.job_id = p_job_id);
end $$;
