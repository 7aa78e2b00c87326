-- Remembers places in this session; see recall_places.
create or replace function jobforge_private.keep_places(
    p_name text,
    p_queue text,
    p_places jobforge.places
) returns void
language plpgsql
as $$
begin
    perform set_config('jobforge.' || p_name || '_' || md5(p_queue), p_places::text, false);
end $$;
