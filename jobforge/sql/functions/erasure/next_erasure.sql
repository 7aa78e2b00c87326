-- Workers and servers call this periodically for an erasure whose artifacts are to be deleted. The
-- caller deletes all files below the tenant's ID and calls confirm_erasure with whether it found
-- any; the erasure is returned again until a caller found none. No other caller gets it for 30
-- seconds; after that the first caller may have been killed. A caller without an artifact store
-- passes p_has_store false, and gets an erasure only if no process has recorded a store: then there
-- are no artifacts. Returns no row if no erasure waits; with app.tenant_id set, only one of that
-- tenant. Locks the operation.
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
           reason = 'waiting for the tenant''s artifacts to be deleted'
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
