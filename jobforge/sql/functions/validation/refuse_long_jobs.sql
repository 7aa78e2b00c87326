-- Trigger function of jobs: refuses an update by another role than the engine that made a payload
-- or result too long as text (JF007). Finds the rows by their transaction, because a trigger for
-- each row would slow down claims, which update other columns of the same rows.
create or replace function jobforge_private.refuse_long_jobs() returns trigger
language plpgsql
as $$
declare
    v_column text;
    v_value jsonb;
begin
    select v.name, v.value into v_column, v_value
      from jobforge.jobs as j
     cross join lateral (values ('payload', j.payload), ('result', j.result)) as v(name, value)
     -- Subtransactions have higher IDs than their transaction.
     where case when age(j.xmin) <= age(pg_current_xact_id()::xid)
                then not jobforge_private.is_bounded(v.value, 16777216) end
     limit 1;
    if found then
        perform jobforge_private.refuse_unbounded(v_column, v_value, '{"table": "jobs"}');
    end if;
    return null;
end $$;
