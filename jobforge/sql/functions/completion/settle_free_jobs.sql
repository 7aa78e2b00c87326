-- Settles the outcomes of jobs that no other transaction has locked. Never waits for a locked job;
-- neither such a job nor one whose lease has ended is returned. Jobs whose completion needs other
-- rows are settled after the others, because such a row may be locked too (settle_linked_jobs).
-- Called by complete_jobs and succeed_jobs. Locks the jobs in order of (tenant_id, id), together
-- with the jobs that they are to gather, as far as those are not locked.
create or replace function jobforge_private.settle_free_jobs(p_worker_id uuid, p_outcomes jsonb)
returns table (tenant_id uuid, job_id uuid, lease bigint, state text)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge.tenant();
    v_listening uuid[] := '{}';
    v_has_waits boolean := jsonb_path_exists(p_outcomes, '$[*].wait');
    v_plain integer[];
    v_linked integer[];
    v_outcomes jsonb;
begin
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        v_listening := jobforge_private.listening_tenants(array(
            select (o ->> 'tenant_id')::uuid from jsonb_array_elements(p_outcomes) as o));
    end if;
    with given as materialized (
        select g.*, p_worker_id as worker_id
          from (select o.tenant_id, o.job_id, o.lease, o.place,
                       coalesce(o.wait ->> 'kind' = 'gather', false) as gathers
                  from rows from (jsonb_to_recordset(p_outcomes) as (
                           tenant_id uuid, job_id uuid, lease bigint, wait jsonb))
                       with ordinality as o(tenant_id, job_id, lease, wait, place)
                union all
                select w.tenant_id, w.job_id, null, null, null
                  from jobforge_private.jobs_to_gather(p_outcomes) as w
                 where v_has_waits) as g
         where v_tenant is null or g.tenant_id = v_tenant
         order by g.tenant_id, g.job_id
    ), held as materialized (
        select g.place,
               g.gathers or j.flags <> 0 or j.tenant_id = any (v_listening) as is_linked
          from given as g
          join jobforge.jobs as j on j.tenant_id = g.tenant_id and j.id = g.job_id
         where j.state || '' = 'running' and j.worker_id = g.worker_id and j.lease = g.lease
            or g.lease is null and j.state || '' <> 'blocked'
           for update of j skip locked
    )
    select array_agg(h.place) filter (where not h.is_linked),
           array_agg(h.place) filter (where h.is_linked)
      into v_plain, v_linked
      from held as h
     where h.place is not null;
    if v_plain is not null then
        v_outcomes := p_outcomes;
        if cardinality(v_plain) < jsonb_array_length(p_outcomes) then
            v_outcomes := (
                select jsonb_agg(p_outcomes -> p.place - 1) from unnest(v_plain) as p(place));
        end if;
        return query
        select s.tenant_id, s.job_id, s.lease, s.state
          from jobforge_private.settle_jobs(p_worker_id, v_outcomes) as s;
    end if;
    if v_linked is not null then
        v_outcomes := p_outcomes;
        if cardinality(v_linked) < jsonb_array_length(p_outcomes) then
            v_outcomes := (
                select jsonb_agg(p_outcomes -> f.place - 1) from unnest(v_linked) as f(place));
        end if;
        return query
        select s.tenant_id, s.job_id, s.lease, s.state
          from jobforge_private.settle_linked_jobs(p_worker_id, v_outcomes) as s;
    end if;
end $$;
