-- Returns what a claim reads once: the limits and pauses that exist (except those of the queue, and
-- full_definitions), whether an enabled webhook endpoint wants job starts, and the timeout of all
-- definitions if all have the same, else null. Called by claim_jobs. Takes no locks.
create or replace function jobforge_private.claim_context(
    out limited jobforge.limited,
    out wants_starts boolean,
    out timeout_s integer
)
language plpgsql
as $$
begin
    select array(select d.key from jobforge.definitions as d
                  where d.max_running is not null or d.rate_limit is not null
                     or d.paused_at is not null),
           array(select d.key from jobforge.definitions as d
                  where d.max_running_per_key is not null or d.rate_limit_per_key is not null),
           exists (select from jobforge.tenants as w
                    where w.max_running is not null or w.rate_limit is not null
                       or w.paused_at is not null),
           exists (select from jobforge.tenants as w where w.weight <> 1),
           exists (select from jobforge.webhook_endpoints as w
                    where w.enabled and 'start' = any (w.events)),
           (select case when min(d.timeout_s) = max(d.timeout_s) then min(d.timeout_s) end
              from jobforge.definitions as d)
      into limited.definitions, limited.definitions_by_key, limited.tenants,
           limited.weighted, wants_starts, timeout_s;
end $$;
