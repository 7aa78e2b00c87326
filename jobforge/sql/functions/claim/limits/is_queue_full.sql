-- Returns whether a queue has no free slot or no token left, without taking locks. Called by
-- open_tenants.
create or replace function jobforge_private.is_queue_full(p_queue text) returns boolean
language plpgsql
as $$
begin
    return exists (
        select from jobforge.queues as q
         where q.name = p_queue
           and (q.max_running is not null and exists (
                    select from jobforge.jobs as j
                     -- Not "=": see "Ranges instead of equality" in docs/query-plans.md.
                     where j.queue >= q.name and j.queue <= q.name
                       and j.state = 'running' and j.gate is not null
                     order by j.queue
                    offset q.max_running - 1 limit 1)
                or jobforge_private.available_tokens(
                       'queue:' || q.name, q.rate_limit, q.rate_period_s,
                       coalesce(q.rate_burst, q.rate_limit), jobforge_private.now()) < 1));
end $$;
