-- Gives the running jobs of a tenant, definition or queue their current gate after its limits
-- changed, so that caps count them. Called by functions that change limits, and by claims for a
-- minute afterwards (lock_limits). Locks only rows with an outdated gate and skips rows that other
-- transactions hold, such as jobs that are being settled; heartbeats of all jobs continue. Queued
-- jobs can wait: a claim that meets an outdated gate corrects it.
create or replace function jobforge_private.regate_running(
    p_kind text,
    p_queue text,
    p_tenant_id uuid,
    p_definition text
) returns void
language plpgsql
as $$
declare
    v_rows tid[];
begin
    v_rows := array(
        select j.ctid
          from jobforge.jobs as j
          left join jobforge.tenants as t on t.id = j.tenant_id
          left join jobforge.queues as q on q.name = j.queue
          left join lateral (
            select d.max_running_per_key is not null or d.rate_limit_per_key is not null
                       as is_key_limited,
                   d.max_running is not null or d.rate_limit is not null
                       or d.paused_at is not null as is_limited
              from jobforge.definitions as d
             where d.key = j.definition
             order by d.version desc
             limit 1) as d on true
         where j.state = 'running'
           and case p_kind when 'queue' then j.queue = p_queue
                           when 'tenant' then j.tenant_id = p_tenant_id
                           else j.definition = p_definition end
           and j.gate is distinct from jobforge_private.compute_gate(
                   j.definition, j.limit_key, d.is_key_limited, d.is_limited,
                   t.max_running is not null or t.rate_limit is not null
                       or t.paused_at is not null
                       or q.max_running is not null or q.rate_limit is not null)
           for update of j skip locked);
    if v_rows <> '{}' then
        perform jobforge_private.regate_rows(v_rows);
    end if;
end $$;
