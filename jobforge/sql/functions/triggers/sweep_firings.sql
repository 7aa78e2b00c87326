-- Deletes firings from before the history begins, and triggers that were deleted before it, p_limit
-- of each at most. Returns how many firings were deleted. Called by sweep.
create or replace function jobforge_private.sweep_firings(p_before timestamptz, p_limit integer)
returns bigint
language plpgsql
as $$
declare
    v_deleted bigint;
begin
    delete from jobforge.firings as f
     where f.ctid = any (array(
           select e.ctid from jobforge.firings as e
            where e.at < p_before and e.outcome <> 'pending'
            limit p_limit for update skip locked));
    get diagnostics v_deleted = row_count;
    delete from jobforge.triggers as t
     where t.ctid = any (array(
           select e.ctid from jobforge.triggers as e
            where e.deleted_at < p_before limit p_limit for update skip locked));
    return v_deleted;
end $$;
