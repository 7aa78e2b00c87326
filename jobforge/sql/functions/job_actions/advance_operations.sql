-- Servers and workers call this repeatedly: runs one step, of p_limit jobs at most, of the
-- operation that is due first; with app.tenant_id set, of that tenant only. Returns no row if none
-- is due. Progress is stored in the same transaction, so an interrupted step has no effect. A step
-- that conflicted with other transactions, or for which resources were missing, is tried again
-- after 5 seconds; any other error fails the operation, so that it does not block the others. An
-- erasure processes ten rows in place of each job, never fails, and is not due while it waits for
-- artifacts to be deleted (next_erasure). Locks the operation, skipping those that others have
-- locked, then jobs in order of ID. Raises JF002, and JF012 outside READ COMMITTED.
create or replace function jobforge.advance_operations(p_limit integer default 1000)
returns table (tenant_id uuid, operation_id uuid, state text, jobs bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge.tenant();
    v_old jobforge.operations;
    v_new jobforge.operations;
begin
    perform jobforge_private.require_read_committed('advance_operations');
    perform jobforge_private.check_limit(p_limit, 10000);
    select * into v_old from jobforge.operations as o
     where o.finished_at is null and o.due_at <= jobforge_private.now()
       and (v_tenant is null or o.tenant_id = v_tenant)
       and o.progress ->> 'phase' is distinct from 'artifacts'
     order by o.due_at
     limit 1
       for update skip locked;
    if not found then
        return;
    end if;
    begin
        if v_old.kind = 'erase' then
            v_new := jobforge_private.step_erasure(v_old, 10 * p_limit);
        else
            v_new := jobforge_private.step_operation(v_old, p_limit);
        end if;
    exception
        when transaction_rollback or object_not_in_prerequisite_state or insufficient_resources then
            v_new := v_old;
            v_new.due_at := jobforge_private.now() + interval '5 seconds';
        when others then
            v_new := v_old;
            v_new.reason := format('error %s: %s', sqlstate, left(sqlerrm, 500));
            v_new.state := case v_old.kind when 'erase' then 'waiting' else 'failed' end;
            v_new.due_at := jobforge_private.now() + interval '1 minute';
    end;
    perform jobforge_private.save_operation(v_new);
    return query
    select v_new.tenant_id, v_new.id, v_new.state,
           v_new.done + v_new.skipped - v_old.done - v_old.skipped;
end $$;
