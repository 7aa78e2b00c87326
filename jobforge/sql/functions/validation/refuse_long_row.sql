-- Trigger function of the tables whose JSON other statements return: refuses an update to a value
-- that is too long as text, also by a superuser (JF007). Its arguments are the columns. An update
-- that leaves such a value unchanged is allowed. Functions check values before they insert them.
create or replace function jobforge_private.refuse_long_row() returns trigger
language plpgsql
as $$
declare
    v_row jsonb := to_jsonb(new);
    v_column text;
begin
    foreach v_column in array tg_argv loop
        if not jobforge_private.is_bounded(v_row -> v_column, 16777216)
           and v_row -> v_column is distinct from to_jsonb(old) -> v_column then
            perform jobforge_private.refuse_unbounded(v_column, v_row -> v_column,
                jsonb_build_object('table', tg_table_name));
        end if;
    end loop;
    return null;
end $$;
