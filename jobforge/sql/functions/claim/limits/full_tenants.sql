-- Returns the tenants between p_from and p_below (both exclusive), in order, whose running jobs use
-- all slots of their cap: one pass over the running jobs that have a gate. Allows a merge join with
-- the caps: a probe for each tenant takes twice as long. Called by open_tenants.
create or replace function jobforge_private.full_tenants(p_from uuid, p_below uuid) returns uuid[]
language plpgsql
set enable_mergejoin = on
as $$
begin
    return array(
        select h.tenant_id
          from (select j.tenant_id, count(*) as running
                  from jobforge.jobs as j
                 where j.state = 'running' and j.gate is not null
                   and j.tenant_id > p_from and j.tenant_id < p_below
                 group by j.tenant_id) as h
          join jobforge.tenants as t on t.id = h.tenant_id
         where t.max_running is not null and t.max_running <= h.running
           and t.id > p_from and t.id < p_below
         order by h.tenant_id);
end $$;
