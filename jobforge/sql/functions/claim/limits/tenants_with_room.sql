-- Returns those of some tenants, in the order given, of which a job with a gate may be able to
-- start: the tenant has a slot and a token left, and one of its groups in the queue is not excluded
-- (open_groups). Counted without locks: it only excludes groups before pick_group locks the others
-- and counts again. Called by open_tenants.
create or replace function jobforge_private.tenants_with_room(
    p_queue text,
    p_tenants uuid[],
    p_limited jobforge.limited
) returns uuid[]
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
begin
    return array(
        select s.tenant_id
          from unnest(p_tenants) as s(tenant_id)
          left join jobforge.tenants as t on p_limited.tenants and t.id = s.tenant_id
         where t.paused_at is null
           and (t.max_running is null or not exists (
                   select from jobforge.jobs as j
                    -- Not "=": see "Ranges instead of equality" in docs/query-plans.md.
                    where j.tenant_id >= t.id and j.tenant_id <= t.id
                      and j.state = 'running' and j.gate is not null
                    order by j.tenant_id
                   offset t.max_running - 1 limit 1))
           and (t.rate_limit is null or jobforge_private.available_tokens(
                   'tenant:' || t.id, t.rate_limit, t.rate_period_s,
                   coalesce(t.rate_burst, t.rate_limit), v_now) >= 1)
           and (p_limited.full_definitions = '{}' and p_limited.definitions_by_key = '{}'
                or jobforge_private.open_groups(
                       p_queue, s.tenant_id, '', 1, p_limited, v_now) <> '{}'));
end $$;
