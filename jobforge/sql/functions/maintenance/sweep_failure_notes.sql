-- Deletes notes from before p_before on failures without dead jobs, p_limit at most. Returns how
-- many. Called by sweep.
create or replace function jobforge_private.sweep_failure_notes(
    p_before timestamptz,
    p_limit integer
) returns bigint
language plpgsql
as $$
declare
    v_deleted bigint;
begin
    delete from jobforge.failure_notes as n
     where n.ctid = any (array(
           select e.ctid from jobforge.failure_notes as e
            where e.updated_at < p_before
              and not exists (select from jobforge.jobs as j
                               where j.tenant_id = e.tenant_id and j.fingerprint = e.fingerprint
                                 and j.state = 'dead')
            limit p_limit for update skip locked));
    get diagnostics v_deleted = row_count;
    return v_deleted;
end $$;
