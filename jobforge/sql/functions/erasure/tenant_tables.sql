-- Returns all tables with rows of tenants, from the catalog, so that later tables are included:
-- each plain table, and each partition with its partitioned table as `root`. Tables whose rows
-- create other rows are erased first and have a `turn`. `place` is the column by which a tenant's
-- rows are found in order: the second column of an index. Called by step_erasure, find_tenant_rows
-- and count_tenant_rows.
create or replace function jobforge_private.tenant_tables()
returns table (name text, root text, turn integer, place text, place_type text)
language sql stable
as $$
    select c.relname::text, r.relname::text,
           array_position('{api_keys,tenant_keys,triggers,webhook_endpoints,connector_configs,
                            operations,outbox,jobs}'::text[], r.relname::text),
           p.attname::text, format_type(p.atttypid, null)
      from pg_class as c
      join pg_attribute as a
        on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
      join pg_class as r on r.oid = coalesce(pg_partition_root(c.oid), c.oid)
      left join lateral (
           select n.attname, n.atttypid
             from pg_index as i
             join pg_attribute as n on n.attrelid = c.oid and n.attnum = i.indkey[1]
            where i.indrelid = c.oid and i.indisvalid and i.indpred is null
              and i.indnkeyatts > 1 and i.indkey[0] = a.attnum and n.attnotnull
            order by i.indexrelid
            limit 1) as p on true
     where c.relnamespace = 'jobforge'::regnamespace and c.relkind = 'r'
$$;
