-- Completes an erasure whose tables and files are gone: only the mark of the tenant's row remains,
-- and the audit log records who erased it and how many rows each table had. Waits another second if
-- the tenant's row or token buckets are in use. Called by step_erasure.
create or replace function jobforge_private.finish_erasure(o jobforge.operations)
returns jobforge.operations
language plpgsql
as $$
begin
    perform from jobforge.tenants as t where t.id = o.tenant_id for update skip locked;
    if not found then
        return jobforge_private.defer_erasure(o, 'waiting for a lock on the tenant''s row');
    end if;
    delete from jobforge.request_rates as r
     where r.ctid = any (array(
           select b.ctid from jobforge.request_rates as b where b.bucket = 'tenant:' || o.tenant_id
              for update skip locked));
    delete from jobforge.rate_limits as r
     where r.ctid = any (array(
           select b.ctid from jobforge.rate_limits as b
            where b.bucket = 'tenant:' || o.tenant_id
               or b.bucket like 'key:' || o.tenant_id || '/%'
              for update skip locked));
    if exists (select from jobforge.rate_limits as b
                where b.bucket = 'tenant:' || o.tenant_id
                   or b.bucket like 'key:' || o.tenant_id || '/%') then
        return jobforge_private.defer_erasure(o, 'waiting for locks on the tenant''s rate limits');
    end if;
    update jobforge.tenants as t
       set slug = null, name = null, timezone = 'UTC', weight = 1, max_running = null,
           max_pending = null, rate_limit = null, rate_period_s = 1, rate_burst = null,
           paused_at = null, created_at = t.erased_at, updated_at = jobforge_private.now()
     where t.id = o.tenant_id;
    insert into jobforge.audit_log (id, tenant_id, at, actor, action, target, detail)
    values (jobforge_private.uuid7(), null, jobforge_private.now(), o.created_by, 'tenant.erased',
            o.tenant_id::text,
            jsonb_build_object('operation_id', o.id, 'rows', o.progress -> 'rows'));
    o.progress := o.progress - '{before,listed}'::text[];
    o.state := 'done';
    return o;
end $$;
