-- Returns a ready job of a tenant, queue and priority that became ready within the last 250 ms, if
-- there is one: it shows that the workers were notified and have not caught up. Called by
-- notify_queue and enqueue_payloads, whose statements it becomes a part of, with enable_sort off:
-- only jobs_ready has this order, and a plan that was made while the table was small would use the
-- primary key and later read all jobs of the tenant.
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
     -- The last one is the most likely to be still ready.
     order by - j.priority::integer desc, j.run_at desc
     limit 1
$$;
