-- Gives rows the gate that the current limits and pauses require. Returns how many changed. The
-- caller has locked the rows. Called by the claim functions that meet a row with an outdated gate,
-- by regate_running and by regate_jobs.
create or replace function jobforge_private.regate_rows(p_rows tid[]) returns bigint
language plpgsql
as $$
declare
    v_changed bigint;
begin
    with kinds as materialized (
        select k.*,
               jobforge_private.current_gate(
                   k.queue, k.tenant_id, k.definition, k.limit_key) as gate
          from (select distinct j.queue, j.tenant_id, j.definition, j.limit_key
                  from jobforge.jobs as j
                 where j.ctid = any (p_rows)) as k
    ), expected as materialized (
        select j.tenant_id, j.id, k.gate
          from jobforge.jobs as j
          join kinds as k on k.queue = j.queue and k.tenant_id = j.tenant_id
               and k.definition = j.definition and k.limit_key is not distinct from j.limit_key
         where j.ctid = any (p_rows) and j.gate is distinct from k.gate
    )
    update jobforge.jobs as j
       set gate = e.gate
      from expected as e
     where j.tenant_id = e.tenant_id and j.id = e.id
       and j.state in ('queued', 'scheduled', 'blocked', 'running');
    get diagnostics v_changed = row_count;
    return v_changed;
end $$;
