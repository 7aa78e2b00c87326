-- Returns the heads of a queue that this session stored under a name (`heads` or `scanned`), or
-- null. They are a hint: a value that this release cannot read, because another release or an
-- application wrote it, is discarded. Each queue has a setting, so that a claim parses only its own
-- queue's.
-- Called by plan_round, merge_known_heads and rescan_ready_tenants.
create or replace function jobforge_private.load_heads(p_name text, p_queue text)
returns jobforge.tenant_heads
language plpgsql
as $$
declare
    v_heads jobforge.tenant_heads;
begin
    v_heads := nullif(current_setting('jobforge.' || p_name || '_' || md5(p_queue), true), '')
        ::jobforge.tenant_heads;
    -- Read all values, because heads_from_cursor and rescan_ready_tenants must not fail on them.
    -- to_timestamp raises an error for an invalid time.
    if array_ndims(v_heads.tenants) > 1
       or exists (select
                    from unnest(v_heads.tenants, v_heads.ranks, v_heads.run_ats, v_heads.ids)
                         as w(tenant_id, rank, run_at, id)
                   where num_nulls(w.tenant_id, w.rank, to_timestamp(w.run_at), w.id) > 0)
    then
        return null;
    end if;
    return v_heads;
exception
    when data_exception or program_limit_exceeded then
        return null;
end $$;
