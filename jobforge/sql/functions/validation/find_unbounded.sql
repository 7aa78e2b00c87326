-- Returns the path of the first number of 1e309 or more, or with more than 400 decimals, in a JSON
-- value; without such a number, the path of the innermost value that is too long as text. Called by
-- refuse_unbounded.
create or replace function jobforge_private.find_unbounded(
    p_value jsonb,
    out path text,
    out is_number boolean
)
language plpgsql stable
as $$
declare
    v_value jsonb := p_value;
    v_step text;
    v_inner jsonb;
begin
    path := '$';
    loop
        v_step := null;
        if jsonb_typeof(v_value) = 'object' then
            select '.' || left(e.key, 100), e.value into v_step, v_inner
              from jsonb_each(v_value) as e
             where jobforge_private.has_long_number(e.value)
             limit 1;
        elsif jsonb_typeof(v_value) = 'array' then
            select '[' || e.n - 1 || ']', e.value into v_step, v_inner
              from jsonb_array_elements(v_value) with ordinality as e(value, n)
             where jobforge_private.has_long_number(e.value)
             limit 1;
        end if;
        exit when v_step is null or length(path) > 500;
        path := path || v_step;
        v_value := v_inner;
    end loop;
    is_number := jobforge_private.has_long_number(v_value);
end $$;
