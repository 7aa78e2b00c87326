-- Deletes API keys that expired or were revoked before p_before, p_limit at most; the audit log
-- keeps what was done with them. Returns how many. Called by sweep.
create or replace function jobforge_private.sweep_api_keys(p_before timestamptz, p_limit integer)
returns bigint
language plpgsql
as $$
declare
    v_deleted bigint;
begin
    delete from jobforge.api_keys as k
     where k.ctid = any (array(
           select e.ctid from jobforge.api_keys as e
            where least(e.expires_at, e.revoked_at) < p_before
            limit p_limit for update skip locked));
    get diagnostics v_deleted = row_count;
    return v_deleted;
end $$;
