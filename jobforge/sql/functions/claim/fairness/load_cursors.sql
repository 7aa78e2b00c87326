-- Returns the round-robin state of these queues that this session stored (jobforge.cursors), or {}.
-- It is a hint: a value that this release cannot read, because another release or an application
-- wrote it, is discarded. Called by claim_jobs.
create or replace function jobforge_private.load_cursors(p_queues text[]) returns jsonb
language plpgsql
as $$
declare
    v_cursors jsonb;
    v_cursor jsonb;
    v_is_read boolean;
begin
    v_cursors := nullif(current_setting('jobforge.cursors', true), '');
    if v_cursors is null then
        return '{}';
    end if;
    for i in 1 .. cardinality(p_queues) loop
        v_cursor := v_cursors -> p_queues[i];
        -- Cast each member as pick_round and plan_round do. `row(…) is null` would stop at the
        -- first member that is not null.
        v_is_read := num_nonnulls((v_cursor ->> 'tenant')::uuid, (v_cursor ->> 'served')::bigint,
                                  (v_cursor -> 'slow')::boolean, (v_cursor -> 'complete')::boolean,
                                  (v_cursor -> 'gated')::boolean, (v_cursor -> 'small')::boolean,
                                  (v_cursor ->> 'heads_until')::timestamptz,
                                  (v_cursor ->> 'rescan_at')::timestamptz,
                                  (v_cursor ->> 'idle_until')::timestamptz) >= 0;
        if jsonb_typeof(v_cursor) <> 'object' then
            return '{}';
        end if;
    end loop;
    return case jsonb_typeof(v_cursors) when 'object' then v_cursors else '{}' end;
exception
    when data_exception or program_limit_exceeded then
        return '{}';
end $$;
