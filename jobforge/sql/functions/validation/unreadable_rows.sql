-- Returns up to 20 rows of a table with JSON that is too long as text: the columns p_key and
-- tenant_id of the row, and the names of its columns with such JSON. Reads up to 50,000 rows,
-- newest partitions first, and checks up to 1,000 of these that have large values; it does not
-- decompress the others. Called by find_unreadable.
create or replace function jobforge_private.unreadable_rows(p_table text, p_key text[])
returns table (key jsonb, columns text)
language plpgsql stable
as $$
declare
    v_table regclass := format('jobforge.%I', p_table);
    v_key text;
    v_values text;
    v_is_large text;
begin
    select string_agg(format('%L, n.%I', a.attname, a.attname), ', ')
             filter (where a.attname = any (p_key || '{tenant_id}')),
           string_agg(format('(%L, n.%I)', a.attname, a.attname), ', ' order by a.attnum)
             filter (where a.atttypid = 'jsonb'::regtype),
           string_agg(format('pg_column_size(r.%I) > 1500'
                             ' or pg_column_compression(r.%I) is not null', a.attname, a.attname),
                      ' or ') filter (where a.atttypid = 'jsonb'::regtype)
      into v_key, v_values, v_is_large
      from pg_attribute as a
     where a.attrelid = v_table and a.attnum > 0 and not a.attisdropped;
    return query execute format(
        'select jsonb_build_object(%s), f.columns
           from (select r.* from (%s limit 50000) as r where %s limit 1000) as n
          cross join lateral (
                select string_agg(v.name, '', '') as columns
                  from (values %s) as v(name, value)
                 where not jobforge_private.is_bounded(v.value, 16777216)) as f
          where f.columns is not null
          limit 20',
        v_key,
        coalesce((select string_agg(format('select * from %s', p.relid), ' union all '
                                    order by p.relid::text desc)
                    from pg_partition_tree(v_table) as p
                   where p.isleaf), format('select * from %s', v_table)),
        v_is_large, v_values);
end $$;
