-- What this session remembers of a queue under a name, or null: a hint, never relied upon. A text
-- that cannot be used, because another release wrote it or an application set it, is discarded. A
-- setting for each queue, because a claim of one must not read and write the others'.
create or replace function jobforge_private.recall_places(p_name text, p_queue text)
returns jobforge.places
language plpgsql
as $$
declare
    v_places jobforge.places;
begin
    v_places := nullif(
        current_setting('jobforge.' || p_name || '_' || md5(p_queue), true), '')::jobforge.places;
    -- As turns_from and walk_again read them. A time that is no timestamp raises an error here.
    if array_ndims(v_places.tenants) > 1
       or exists (select
                    from unnest(v_places.tenants, v_places.ranks, v_places.run_ats, v_places.ids)
                         as w(tenant_id, rank, run_at, id)
                   where num_nulls(w.tenant_id, w.rank, to_timestamp(w.run_at), w.id) > 0)
    then
        return null;
    end if;
    return v_places;
exception
    when data_exception or program_limit_exceeded then
        return null;
end $$;
