-- Workers and servers call this from time to time: an erasure whose tenant's artifacts have to be
-- deleted now. The caller deletes all files below the tenant's id and calls confirm_erasure, with
-- whether it found any. An erasure asks again until the last caller found none. For 30
-- seconds nobody else gets it; then another caller does, because the first one may have been
-- killed. A caller without a store passes p_has_store false, and gets one only if no process has
-- recorded a store: then there are no artifacts. No row when there is none; with app.tenant_id set,
-- of that tenant only. Locks the operation.
create or replace function jobforge.next_erasure(p_has_store boolean default true)
returns table (tenant_id uuid, operation_id uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge.tenant();
begin
    return query
    update jobforge.operations as o
       set due_at = jobforge_private.now() + interval '30 seconds', state = 'waiting',
           reason = 'waits for its artifacts to be deleted'
      from (select e.tenant_id, e.id from jobforge.operations as e
             where e.finished_at is null and e.due_at <= jobforge_private.now()
               and e.progress ->> 'phase' = 'artifacts'
               and (v_tenant is null or e.tenant_id = v_tenant)
               and (p_has_store or not exists (
                   select from jobforge.artifact_stores as s where s.store_id is not null))
             order by e.due_at
             limit 1
               for update skip locked) as n
     where o.tenant_id = n.tenant_id and o.id = n.id
    returning o.tenant_id, o.id;
end $$;
