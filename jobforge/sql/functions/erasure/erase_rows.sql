-- Deletes up to p_limit rows of a tenant from one table, in order of the column p_place from
-- p_after on. Returns how many rows it deleted (`gone`), how many it could lock (`met`), and the
-- last position. The operation p_keep stays. Skips rows that other transactions have locked: it
-- never waits for a row, so it cannot be part of a deadlock. A partition that was dropped in the
-- meantime has no rows. Called by step_erasure.
create or replace function jobforge_private.erase_rows(
    p_table text,
    p_place text,
    p_place_type text,
    p_tenant_id uuid,
    p_keep uuid,
    p_limit integer,
    p_after text,
    out gone bigint,
    out met bigint,
    out last text
)
language plpgsql
as $$
begin
    -- Starts at the last position: index entries of deleted rows stay while an old snapshot may see
    -- them, and each step would pass all of them again.
    execute format(
        'with met as materialized ('
        || ' select e.ctid as row_id, %2$s as place from only jobforge.%1$I as e'
        || '  where e.tenant_id = $1 %3$s %4$s %5$s limit $2 for update skip locked'
        || '), gone as ('
        || ' delete from only jobforge.%1$I as r'
        || '  where r.ctid = any (array(select m.row_id from met as m)) returning 1'
        || ') select (select count(*) from gone), count(*), (array_agg(m.place))[count(*)] '
        || '    from met as m',
        p_table,
        case when p_place is null then 'null::text' else format('e.%I::text', p_place) end,
        case when p_after is not null then format('and e.%I >= $3::%s', p_place, p_place_type) end,
        case when p_table = 'operations' then 'and e.id <> $4' end,
        case when p_place is not null then format('order by e.tenant_id, e.%I', p_place) end)
       into gone, met, last
      using p_tenant_id, p_limit, p_after, p_keep;
exception
    when undefined_table then
        gone := 0;
        met := 0;
end $$;
