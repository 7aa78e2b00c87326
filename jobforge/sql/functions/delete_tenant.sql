-- Erases a tenant: jobs, history, events, keys, limits and its row; the audit log keeps that it
-- happened and who did it, nothing else of it. Running jobs lose their leases. Answers how many
-- rows went from each table. Raises JF002. Can be long: one transaction.
create or replace function jobforge.delete_tenant(p_tenant_id uuid) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text;
    v_count bigint;
    v_counts jsonb := '{}';
begin
    if p_tenant_id is null then
        perform jobforge.refuse('JF002', 'tenant_id is required', '{"field": "tenant_id"}');
    end if;
    delete from jobforge.request_rates as r
     where r.bucket = 'tenant:' || p_tenant_id
        or r.bucket in (select 'key:' || k.id from jobforge.api_keys as k
                         where k.tenant_id = p_tenant_id);
    -- Attempts that are being added up now would be in the statistics again after this.
    perform pg_advisory_xact_lock(hashtextextended('jobforge:statistics', 0));
    -- Every table with a tenant_id that is not a partition, those of later areas too.
    for v_table in
        select c.relname
          from pg_class as c
          join pg_attribute as a
            on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
         where c.relnamespace = 'jobforge'::regnamespace
           and c.relkind in ('r', 'p') and not c.relispartition
         order by c.relname
    loop
        execute format('delete from jobforge.%I where tenant_id = $1', v_table) using p_tenant_id;
        get diagnostics v_count = row_count;
        v_counts := v_counts || jsonb_build_object(v_table, v_count);
    end loop;
    delete from jobforge.rate_limits as b
     where b.bucket = 'tenant:' || p_tenant_id or b.bucket like 'key:' || p_tenant_id || '/%';
    delete from jobforge.tenants as t where t.id = p_tenant_id;
    perform jobforge.audit(null, 'tenant.delete', p_tenant_id::text, v_counts);
    return v_counts;
end $$;
