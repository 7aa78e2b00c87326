-- Locks the limits of a group until the transaction ends, without waiting. is_locked is false if
-- another transaction holds one of them; that one is then recorded in `taken`. Before that, marks
-- running jobs that do not carry a limit because it is new: a claim in flight when the limit was
-- set may have started them (regate_running), once per round and limit. Called by pick_group. Locks
-- rows of locks, and running jobs whose gate changes.
create or replace function jobforge_private.lock_limits(
    p_limits jobforge.group_limit[],
    p_queue text,
    p_tenant_id uuid,
    p_definition text,
    p_now timestamptz,
    inout taken jsonb,
    out is_locked boolean
)
language plpgsql
as $$
declare
    v_limit jobforge.group_limit;
    v_changed text;
begin
    is_locked := false;
    foreach v_limit in array p_limits loop
        v_changed := 'changed ' || case v_limit.kind
            when 'key' then 'definition:' || p_definition else v_limit.subject end;
        if v_limit.changed_at > p_now - interval '1 minute' and not taken ? v_changed then
            taken := taken || jsonb_build_object(v_changed, 0);
            -- Rows that another transaction holds stay as they are: count_startable_jobs counts
            -- them.
            perform jobforge_private.regate_running(
                v_limit.kind, p_queue, p_tenant_id, p_definition);
        end if;
        if not jobforge_private.try_lock(
                   'limit ' || (hashtextextended(v_limit.subject, 0) & 4095)) then
            taken := taken || jsonb_build_object('full ' || v_limit.subject, 0, 'locked', 0);
            return;
        end if;
    end loop;
    is_locked := true;
end $$;
