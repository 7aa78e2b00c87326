-- Ready jobs of a tenant, queue and priority from the last moments: they show that the workers were
-- woken and have not caught up. Called by announce_queue and enqueue_job, whose statements it
-- becomes a part of.
create or replace function jobforge.newly_ready_jobs(
    p_queue text,
    p_tenant_id uuid,
    p_priority smallint,
    p_now timestamptz
) returns table (job_id uuid)
language sql stable
as $$
    select j.id
      from jobforge.jobs as j
     where j.state = 'queued' and j.gate is null
       -- Rows and not columns: a plan made while the table was small would take a condition
       -- on tenant_id to the primary key, and read all jobs of the tenant later on.
       and (j.queue, j.tenant_id, - j.priority::integer, j.run_at)
           > (p_queue, p_tenant_id, - p_priority::integer, p_now - interval '250 milliseconds')
       and (j.queue, j.tenant_id, - j.priority::integer)
           <= (p_queue, p_tenant_id, - p_priority::integer)
$$;
