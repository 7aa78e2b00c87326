-- Returns the count of a tenant's earlier pending jobs that this session remembers
-- (store_pending_count), or null if there is none: it has expired, or includes jobs from p_first
-- on. Every login can change the settings of its session. So the count is signed; an older count
-- that a login restores only makes the session count more jobs. Called by check_pending_limit.
create or replace function jobforge_private.load_pending_count(p_tenant_id uuid, p_first uuid)
returns jobforge.pending_count
language plpgsql
as $$
declare
    v_stored text[] := string_to_array(
        current_setting(jobforge_private.pending_count_setting(p_tenant_id), true), ' ');
    v_count jobforge.pending_count;
begin
    if v_stored[1] = p_tenant_id::text
       and v_stored[5] = jobforge_private.sign(array_to_string(v_stored[:4], ' ')) then
        v_count.until := to_timestamp(v_stored[2]::bigint / 1000.0);
        v_count.before := v_stored[3]::uuid;
        v_count.jobs := v_stored[4]::bigint;
        if v_count.before <= p_first
           and v_count.until between clock_timestamp() and clock_timestamp() + interval '1 minute'
        then
            return v_count;
        end if;
    end if;
    return null;
end $$;
