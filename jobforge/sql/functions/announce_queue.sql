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
            where j.state = 'queued' and j.gate is null
              -- Rows and not columns: a plan made while the table was small would take a condition
              -- on tenant_id to the primary key, and read all jobs of the tenant later on.
              and (j.queue, j.tenant_id, - j.priority::integer, j.run_at)
                  > (p_queue, p_tenant_id, - p_priority::integer,
                     p_now - interval '250 milliseconds')
              and (j.queue, j.tenant_id, - j.priority::integer)
                  <= (p_queue, p_tenant_id, - p_priority::integer))
    then
        perform pg_notify('jobforge:' || p_queue, '');
    end if;
end $$;
