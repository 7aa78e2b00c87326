-- Runs one step of a tenant's erasure: deletes up to p_limit rows. Returns the operation in its new
-- state; the caller has locked its row. Phases:
--   jobs       jobs and what creates jobs: once none is left, no new rows come into being
--   history    all other tables
--   barrier    waits for the end of the transactions that were open when the last job was deleted,
--              because they may still write rows without knowing of the erasure
--   artifacts  waits until a worker or a server has deleted the tenant's files (confirm_erasure)
--   proof      every table again, until all are empty
-- A job that is being stopped, or an enqueue that is then refused, can write a file after the files
-- were deleted. So an empty proof returns to `artifacts` with `listed` false. If no file is found
-- there, `listed` becomes true and the next empty proof completes the erasure.
-- Locks the rows that it deletes and skips those that others have locked. The proof also takes the
-- locks of statistics and partitions, if they are free, because these tasks copy rows. Called by
-- advance_operations.
create or replace function jobforge_private.step_erasure(o jobforge.operations, p_limit integer)
returns jobforge.operations
language plpgsql
set lock_timeout = '1s'
as $$
declare
    v_phase text := o.progress ->> 'phase';
    v_table record;
    v_slice record;
    v_left bigint := p_limit;
    v_found text;
begin
    o.started_at := coalesce(o.started_at, jobforge_private.now());
    o.stepped_at := jobforge_private.now();
    o.due_at := o.stepped_at;
    o.state := 'running';
    o.reason := null;
    if v_phase = 'barrier' then
        if array(select jsonb_array_elements_text(o.progress -> 'before'))
           && jobforge_private.open_transactions() then
            return jobforge_private.defer_erasure(o,
                'waiting for earlier transactions to finish');
        end if;
        o.progress := o.progress || '{"phase": "artifacts"}';
        o.state := 'waiting';
        o.reason := 'waiting for a server, a Python worker or jobforge tenants delete '
                    'to delete the artifacts';
        return o;
    elsif v_phase = 'proof'
          and not (jobforge_private.try_lock('statistics')
                   and jobforge_private.try_lock('partitions')) then
        return jobforge_private.defer_erasure(o, 'waiting for maintenance to finish');
    end if;

    for v_table in
        select t.* from jobforge_private.tenant_tables() as t
         where t.turn is not null or v_phase <> 'jobs'
         order by t.turn, t.name
    loop
        -- Continue at the position of the last step.
        continue when o.progress ? 'table' and o.progress ->> 'table' <> v_table.name;
        v_slice := jobforge_private.erase_rows(
            v_table.name, v_table.place, v_table.place_type, o.tenant_id, o.id, v_left::integer,
            o.progress ->> 'after');
        o.progress := o.progress - '{table,after}'::text[];
        o.done := o.done + v_slice.gone;
        if v_slice.gone > 0 then
            o.progress := jsonb_set(o.progress, array['rows', v_table.root], to_jsonb(
                coalesce((o.progress #>> array['rows', v_table.root])::bigint, 0) + v_slice.gone));
        end if;
        v_left := v_left - v_slice.met;
        if v_left <= 0 then
            o.progress := o.progress || jsonb_strip_nulls(
                jsonb_build_object('table', v_table.name, 'after', v_slice.last));
            return o;
        end if;
    end loop;
    if o.progress ? 'table' then  -- the partition was dropped since
        o.progress := o.progress - '{table,after}'::text[];
        return o;
    end if;

    v_found := jobforge_private.find_tenant_rows(o.tenant_id, o.id, v_phase <> 'proof');
    if v_phase = 'history' then
        o.progress := o.progress || '{"phase": "barrier"}';
    elsif v_found is null and v_phase = 'jobs' then
        o.progress := o.progress || jsonb_build_object(
            'phase', 'history', 'before', jobforge_private.open_transactions());
    elsif v_found is null and v_left = p_limit then
        if o.progress @> '{"listed": true}' then
            return jobforge_private.finish_erasure(o);
        end if;
        o.progress := o.progress || '{"phase": "artifacts", "listed": false}';
        o.state := 'waiting';
        o.reason := 'waiting for a server, a Python worker or jobforge tenants delete '
                    'to check that no artifact is left';
    elsif v_found is not null then
        if jobforge_private.find_tenant_rows(o.tenant_id, o.id, true) is not null then
            o.progress := (o.progress - 'listed') || '{"phase": "jobs"}';
        end if;
        return jobforge_private.defer_erasure(
            o, format('waiting for rows of %s that other transactions have locked', v_found));
    end if;
    return o;
end $$;
