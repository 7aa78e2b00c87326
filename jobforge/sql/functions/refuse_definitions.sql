-- Called when some element of an enqueue named no usable definition: raises JF009 (unknown) or
-- JF010 (inactive) for the first such element.
create or replace function jobforge.refuse_definitions(p_jobs jsonb) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_job record;
    v_known jobforge.definitions;
    v_name text;
begin
    for v_job in
        select g.definition, g.version, g.index - 1 as index
          from rows from (jsonb_to_recordset(p_jobs) as (definition text, version integer))
               with ordinality as g(definition, version, index)
    loop
        v_name := v_job.definition || coalesce('@' || v_job.version, '');
        select * into v_known from jobforge.find_definition(v_job.definition, v_job.version);
        if not found then
            perform jobforge.refuse('JF009', format('unknown definition %s', v_name),
                jsonb_build_object('definition', v_name, 'index', v_job.index));
        elsif not v_known.is_active then
            perform jobforge.refuse('JF010', format('definition %s is not active', v_name),
                jsonb_build_object('definition', v_name, 'index', v_job.index));
        end if;
    end loop;
end $$;
