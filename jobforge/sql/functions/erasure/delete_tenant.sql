-- Operators call this to erase a tenant: marks it as erased, ends its running jobs, and starts an
-- operation of kind `erase`, which advance_operations runs in steps. Returns the operation's ID.
-- From the commit on, every function that acts for the tenant raises JF014, none of its jobs is
-- claimed, and its workers lose their leases. The mark remains when all rows are deleted: the ID
-- can never be used again. While the erasure is in progress, another call returns the same
-- operation; afterwards it starts a new one, which searches for rows again. The tenant need not
-- have settings. Waits only for a transaction that changes the tenant's settings. Raises JF002, and
-- JF012 outside READ COMMITTED.
create or replace function jobforge.delete_tenant(p_tenant_id uuid) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_id uuid := jobforge_private.uuid7();
    v_matched bigint;
    v_ended bigint;
    v_existing uuid;
begin
    perform jobforge_private.require_read_committed('delete_tenant');
    if coalesce(p_tenant_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       = 'ffffffff-ffff-ffff-ffff-ffffffffffff' then
        perform jobforge_private.refuse('JF002', 'tenant_id must be the ID of a tenant',
            '{"field": "tenant_id"}');
    end if;
    insert into jobforge.tenants as t (id, created_at, updated_at, paused_at, erased_at)
    values (p_tenant_id, v_now, v_now, v_now, v_now)
    on conflict (id) do update
       -- Claims skip a paused tenant. The last step of the erasure removes the pause.
       set paused_at = coalesce(t.paused_at, v_now), erased_at = coalesce(t.erased_at, v_now),
           updated_at = v_now;
    -- The row stays, so that the login stays confined after its last tenant is erased.
    update jobforge.bound_logins as b
       set tenants = array_remove(b.tenants, p_tenant_id)
     where p_tenant_id = any (b.tenants);
    select o.id into v_existing from jobforge.operations as o
     where o.tenant_id = p_tenant_id and o.kind = 'erase' and o.finished_at is null;
    if found then
        return v_existing;
    end if;
    v_matched := jobforge_private.count_tenant_rows(p_tenant_id);
    -- Token buckets of API keys are found by the keys, which are deleted later.
    delete from jobforge.request_rates as r
     where r.ctid = any (array(
           select b.ctid from jobforge.request_rates as b
            where b.bucket in (select 'key:' || k.id from jobforge.api_keys as k
                                where k.tenant_id = p_tenant_id)
              for update skip locked));
    v_ended := jobforge_private.drop_running_jobs(p_tenant_id);
    insert into jobforge.operations (
           tenant_id, id, created_at, due_at, matched, done, kind, created_by, filter, options,
           progress)
    values (p_tenant_id, v_id, v_now, v_now, v_matched, v_ended, 'erase', jobforge_private.actor(),
            '{}', '{}',
            jsonb_build_object('phase', 'jobs', 'rows', jsonb_build_object('jobs', v_ended)));
    perform jobforge_private.audit(null, 'tenant.delete', p_tenant_id::text,
        jsonb_build_object('operation_id', v_id));
    return v_id;
end $$;
