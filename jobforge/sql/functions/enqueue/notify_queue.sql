-- Wakes the workers of a queue that a tenant's jobs are about to enter. NOTIFY takes a global
-- lock at commit, so it is left out where a ready job of the last moments shows that they were
-- woken and have not caught up. Called by insert_jobs, insert_payloads and unblock_jobs. Has a
-- switch of its own (recently_ready_jobs.sql says why): those who call it sort.
create or replace function jobforge_private.notify_queue(
    p_queue text,
    p_tenant_id uuid,
    p_priority smallint,
    p_now timestamptz
) returns void
language plpgsql
set enable_sort = off
as $$
begin
    if not exists (
           select from jobforge_private.recently_ready_jobs(
                           p_queue, p_tenant_id, p_priority, p_now))
    then
        perform jobforge_private.notify_channel('jobforge:' || p_queue);
    end if;
end $$;
