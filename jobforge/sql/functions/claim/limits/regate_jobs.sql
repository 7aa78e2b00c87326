-- Operators can call this after limits or pauses changed: gives waiting jobs their current gate, in
-- steps of p_limit rows from a position that is returned for the next step (null at the end).
-- Claims are correct without it, but slower while they meet many outdated gates. Skips rows that
-- other transactions have locked. Raises JF002.
create or replace function jobforge.regate_jobs(
    p_limit integer default 5000,
    inout after_tenant uuid default null,
    inout after_id uuid default null,
    out changed bigint
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_rows tid[];
    v_seen integer;
begin
    perform jobforge_private.check_limit(p_limit, 50000);
    with seen as materialized (
        select j.ctid as row_id, j.tenant_id, j.id
          from jobforge.jobs as j
         where (j.tenant_id, j.id)
               > (coalesce(after_tenant, '00000000-0000-0000-0000-000000000000'),
                  coalesce(after_id, '00000000-0000-0000-0000-000000000000'))
         order by j.tenant_id, j.id
         limit p_limit
           for update skip locked
    )
    select array_agg(s.row_id), count(*),
           (array_agg(s.tenant_id order by s.tenant_id desc, s.id desc))[1],
           (array_agg(s.id order by s.tenant_id desc, s.id desc))[1]
      into v_rows, v_seen, after_tenant, after_id
      from seen as s;
    changed := coalesce(jobforge_private.regate_rows(v_rows), 0);
    if v_seen < p_limit then
        after_tenant := null;
        after_id := null;
    end if;
end $$;
