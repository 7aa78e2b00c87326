-- Deletes what was noted before p_before about failures of which no dead job is left, p_limit at
-- most. Answers how many. Called by apply_retention.
create or replace function jobforge_private.sweep_failure_notes(
    p_before timestamptz,
    p_limit integer
) returns bigint
language plpgsql
as $$
declare
    v_gone bigint;
begin
    delete from jobforge.failure_notes as n
     where n.ctid = any (array(
           select e.ctid from jobforge.failure_notes as e
            where e.updated_at < p_before
              and not exists (select from jobforge.jobs as j
                               where j.tenant_id = e.tenant_id and j.fingerprint = e.fingerprint
                                 and j.state = 'dead')
            limit p_limit for update skip locked));
    get diagnostics v_gone = row_count;
    return v_gone;
end $$;
