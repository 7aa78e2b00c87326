-- Returns a page of the messages to a webhook endpoint, newest first. p_before is the last ID of
-- the previous page. A delivery is pending, delivered, or failed (not sent again); p_state selects
-- one of these. Raises JF001, JF002, JF004, JF006, JF014.
create or replace function jobforge.list_deliveries(
    p_id uuid,
    p_state text default null,
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null
) returns table (
    id uuid, event text, state text, subject_id uuid, job_id uuid, attempts integer,
    status integer, error text, response text, created_at timestamptz, attempted_at timestamptz,
    delivered_at timestamptz, next_attempt_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    perform jobforge_private.check_limit(p_limit, 200);
    if p_state not in ('pending', 'delivered', 'failed') then
        perform jobforge_private.refuse('JF002', 'state must be pending, delivered or failed',
            '{"field": "state"}');
    end if;
    perform jobforge.get_webhook(p_id, v_tenant);
    return query
    select d.id, d.event, s.state, d.subject_id, d.job_id, d.attempts, d.status, d.error,
           d.response, d.created_at, d.attempted_at, d.delivered_at,
           case when s.state = 'pending' then j.run_at end
      from jobforge.webhook_deliveries as d
      left join jobforge.jobs as j on j.tenant_id = d.tenant_id and j.id = d.job_id
     cross join lateral (
           select case when d.delivered_at is not null then 'delivered'
                       when j.state in ('scheduled', 'queued', 'running', 'blocked') then 'pending'
                       else 'failed' end) as s(state)
     where d.tenant_id = v_tenant and d.endpoint_id = p_id
       and d.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       and (p_state is null or s.state = p_state)
     order by d.id desc
     limit p_limit;
end $$;
