-- Returns whether a row can store this result: at most 1 MiB, 8 MiB of text and 64 levels. Called
-- by succeed_jobs and move_succeeded_jobs; read_outcomes turns results that cannot be stored into
-- failures.
create or replace function jobforge_private.is_storable_result(p_result jsonb) returns boolean
language sql stable
as $$
    -- A jsonb of 96 bytes has less than 1 MiB of text. 500 bytes: see docs/query-plans.md.
    select p_result is null or pg_column_size(p_result) <= 96
           or jobforge_private.is_bounded(p_result, 8388608)
              and (pg_column_size(p_result) <= 500
                   or pg_column_size(p_result) <= 1048576
                      and not jsonb_path_exists(p_result, 'strict $.**{65 to last}'))
$$;
