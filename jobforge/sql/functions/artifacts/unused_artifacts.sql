-- Workers and servers call this with folders of artifacts that they found, each
-- `<tenant>/<day>/<id>`. Returns the folders that no job needs. A folder is needed while a job with
-- that ID exists, while a job names one of its files in artifact_ref, and in any case for two days,
-- because it is filled before its job is committed. Folders of erased jobs and of erased tenants
-- are returned at once. With app.tenant_id set, folders of other tenants are not returned. Takes no
-- locks. Raises JF002.
create or replace function jobforge.unused_artifacts(p_folders text[])
returns table (folder text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_tenant uuid := jobforge.tenant();
    v_before date := ((jobforge_private.now() - interval '2 days') at time zone 'UTC')::date;
begin
    if coalesce(cardinality(p_folders), 0) > 1000 then
        perform jobforge_private.refuse('JF002', 'folders must have at most 1000 items',
            '{"field": "folders", "limit": 1000}');
    end if;
    return query
    with named as materialized (
        select n.path, split_part(n.path, '/', 1)::uuid as tenant_id,
               split_part(n.path, '/', 3)::uuid as id,
               'artifact:' || n.path || '/' as beginning
          from (select f.path from unnest(p_folders) as f(path)
                 where f.path ~ ('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/\d{4}-\d\d-\d\d/'
                                 || '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
                offset 0) as n
    )
    select n.path
      from named as n
     where (v_tenant is null or n.tenant_id = v_tenant)
       and (split_part(n.path, '/', 2) collate "C" < v_before::text
            or jobforge_private.is_erased(n.tenant_id)
            or jobforge_private.belongs_to_erased_job(n.tenant_id, n.id, n.beginning))
       and not exists (select from jobforge.jobs as j
                        where j.tenant_id = n.tenant_id and j.id = n.id and j.flags & 8 = 0)
       and not exists (select from jobforge.finished_jobs as f
                        where f.tenant_id = n.tenant_id and f.id = n.id and f.flags & 8 = 0)
       -- The range of a prefix: in byte order, the character after a slash is 0.
       and not exists (select from jobforge.jobs as j
                        where j.tenant_id = n.tenant_id and j.artifact_ref is not null
                          and j.flags & 8 = 0
                          and j.artifact_ref collate "C" >= n.beginning
                          and j.artifact_ref collate "C" < rtrim(n.beginning, '/') || '0')
       and not exists (select from jobforge.finished_jobs as f
                        where f.tenant_id = n.tenant_id and f.artifact_ref is not null
                          and f.flags & 8 = 0
                          and f.artifact_ref collate "C" >= n.beginning
                          and f.artifact_ref collate "C" < rtrim(n.beginning, '/') || '0');
end $$;
