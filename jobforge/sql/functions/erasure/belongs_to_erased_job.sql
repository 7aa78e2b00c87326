-- Returns whether an artifact folder belongs to an erased job: it has the job's ID, or the job's
-- artifact_ref starts with p_prefix. Called by unused_artifacts.
create or replace function jobforge_private.belongs_to_erased_job(
    p_tenant_id uuid,
    p_id uuid,
    p_prefix text
) returns boolean
language plpgsql stable
as $$
begin
    return exists (
        select from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.id = p_id and j.flags & 8 = 8
        union all
        select from jobforge.finished_jobs as f
         where f.tenant_id = p_tenant_id and f.id = p_id and f.flags & 8 = 8
        union all
        select from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.artifact_ref is not null and j.flags & 8 = 8
           and j.artifact_ref collate "C" >= p_prefix
           and j.artifact_ref collate "C" < rtrim(p_prefix, '/') || '0'
        union all
        select from jobforge.finished_jobs as f
         where f.tenant_id = p_tenant_id and f.artifact_ref is not null and f.flags & 8 = 8
           and f.artifact_ref collate "C" >= p_prefix
           and f.artifact_ref collate "C" < rtrim(p_prefix, '/') || '0');
end $$;
