-- Notifies the workers of a queue that jobs of a tenant are about to enter. NOTIFY takes a global
-- lock at commit, so it is left out if a job of the last moments is still ready: the workers were
-- notified for it and have not caught up. Called by insert_jobs, insert_payloads and
-- unblock_jobs. Turns off sorts itself, because its callers need them (see recently_ready_jobs).
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
