-- Gives rows the gate that the limits and pauses of now ask for. Called where a claim meets a row that
-- was marked under other limits; the rows are locked by the caller.
create or replace function jobforge.regate_rows(p_rows tid[]) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_changed bigint;
begin
    with expected as materialized (
        select j.ctid as row_id, j.tenant_id, j.id, jobforge.gate_of(j.queue, j.tenant_id, j.definition, j.limit_key) as gate
          from jobforge.jobs as j
         where j.ctid = any (p_rows)
    )
    update jobforge.jobs as j
       set gate = e.gate
      from expected as e
     where j.tenant_id = e.tenant_id and j.id = e.id
       and j.state in ('queued', 'scheduled', 'blocked', 'running')
       and j.gate is distinct from e.gate;
    get diagnostics v_changed = row_count;
    return v_changed;
end $$;
