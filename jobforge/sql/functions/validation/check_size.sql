-- Refuses a JSON value beyond 256 KiB, 2 MiB of text or 64 levels, the limits of payloads. Raises
-- JF007.
create or replace function jobforge_private.check_size(p_field text, p_value jsonb) returns void
language plpgsql
as $$
begin
    -- `#> '{}'`: see docs/query-plans.md, "Sizes of JSON values".
    if pg_column_size(p_value #> '{}') > 262144
       or jsonb_path_exists(p_value, 'strict $.**{65 to last}') then
        perform jobforge_private.refuse('JF007',
            format('%s is larger than 256 KiB or nested more than 64 levels deep', p_field),
            jsonb_build_object('field', p_field, 'limit', 262144));
    elsif not jobforge_private.is_bounded(p_value) then
        perform jobforge_private.refuse_unbounded(p_field, p_value);
    end if;
end $$;
