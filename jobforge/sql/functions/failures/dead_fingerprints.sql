-- Returns the fingerprints of a tenant's dead jobs, 10,000 at most. A skip scan: one index probe
-- per fingerprint, however many jobs have it. Called by list_failures.
create or replace function jobforge_private.dead_fingerprints(p_tenant_id uuid)
returns table (fingerprint text)
language plpgsql stable
as $$
#variable_conflict use_column
begin
    return query
    with recursive seen as (
        (select j.fingerprint from jobforge.jobs as j
          where j.tenant_id = p_tenant_id and j.state = 'dead' and j.fingerprint is not null
          order by j.fingerprint
          limit 1)
        union all
        select n.fingerprint
          from seen as s
         cross join lateral (
            select j.fingerprint from jobforge.jobs as j
             where j.tenant_id = p_tenant_id and j.state = 'dead'
               and j.fingerprint > s.fingerprint
             order by j.fingerprint
             limit 1) as n
    )
    select s.fingerprint from seen as s limit 10000;
end $$;
