-- Cancels blocked jobs because a parent was canceled or is dead. The caller has locked the rows.
-- Called by release_dependents.
create or replace function jobforge_private.cancel_dependents(
    p_tenants uuid[],
    p_jobs uuid[],
    p_ended jobforge.ended_job[]
) returns void
language plpgsql
as $$
declare
    v_reason text;
begin
    if p_jobs = '{}' then
        return;
    end if;
    select case when count(*) = 1
                then format('parent %s is %s', min(e.id::text), min(e.state))
                else 'parents are dead or canceled' end
      into v_reason
      from unnest(p_ended) as e
     where e.flags & 2 = 2 and e.state in ('canceled', 'dead');
    perform jobforge_private.cancel_rows(array(
        select j.ctid
          from unnest(p_tenants, p_jobs) as d(tenant_id, id)
          join jobforge.jobs as j on j.tenant_id = d.tenant_id and j.id = d.id
         where j.state || '' = 'blocked'), v_reason);
end $$;
