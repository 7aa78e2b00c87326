-- A ready job of a tenant, queue and priority from the last moments: it shows that the workers were
-- woken and have not caught up. Called by notify_queue and enqueue_payloads, whose statements it
-- becomes a part of, with enable_sort off: no index but jobs_ready has this order, and a plan made
-- while the table was small would take the primary key, and read all jobs of the tenant later on.
create or replace function jobforge_private.recently_ready_jobs(
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
       and j.queue = p_queue and j.tenant_id = p_tenant_id
       and - j.priority::integer = - p_priority::integer
       and j.run_at > p_now - interval '250 milliseconds'
     -- The last is the likeliest to be still there.
     order by - j.priority::integer desc, j.run_at desc
     limit 1
$$;
