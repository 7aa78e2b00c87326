-- Wakes the workers of a queue that a tenant's jobs are about to enter. NOTIFY takes a global
-- lock at commit, so it is left out where a ready job of the last moments shows that they were
-- woken and have not caught up. Called by insert_jobs.
create or replace function jobforge.announce_queue(
    p_queue text,
    p_tenant_id uuid,
    p_priority smallint,
    p_now timestamptz
) returns void
language plpgsql
as $$
begin
    if not exists (
           select from jobforge.jobs as j
            where j.queue = p_queue and j.tenant_id = p_tenant_id
              and j.state = 'queued' and j.gate is null
              and - j.priority::integer = - p_priority::integer
              and j.run_at > p_now - interval '250 milliseconds')
    then
        perform pg_notify('jobforge:' || p_queue, '');
    end if;
end $$;
