-- Refuses a JSON value that is too long as text (is_bounded) or nested too deeply. Functions call
-- this first with each JSON argument, before they read its fields. For an argument of any length,
-- such as an array of jobs, p_text is null: its numbers are checked, and up to 200 levels are
-- allowed; the caller checks its elements. Raises JF007.
create or replace function jobforge_private.check_bounded(
    p_field text,
    p_value jsonb,
    p_text integer default 2097152
) returns void
language plpgsql
as $$
begin
    if p_text is null and jobforge_private.has_long_number(p_value)
       or p_text is not null and not jobforge_private.is_bounded(p_value, p_text) then
        perform jobforge_private.refuse_unbounded(p_field, p_value);
    -- 500 bytes: see docs/query-plans.md. A value in an argument may have 64 levels.
    elsif pg_column_size(p_value #> '{}') > 500
          and jsonb_path_exists(p_value, 'strict $.**{69 to last}')
          and (p_text is not null or jsonb_path_exists(p_value, 'strict $.**{201 to last}')) then
        perform jobforge_private.refuse('JF007', format('%s is nested too deeply', p_field),
            jsonb_build_object('field', p_field, 'limit', 64));
    end if;
end $$;
