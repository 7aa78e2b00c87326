-- What this session remembers of whose turn it is in these queues. A text that this release cannot
-- read, because another release wrote it or an application set it, is discarded: it is a hint, not
-- state. Called by claim_jobs.
create or replace function jobforge_private.recall_cursors(p_queues text[]) returns jsonb
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
        -- Every member, as pick_round and take_turns read it. Not `row(…) is null`, which ends at
        -- the first member that is not null.
        v_is_read := num_nonnulls((v_cursor ->> 'tenant')::uuid, (v_cursor ->> 'served')::bigint,
                                  (v_cursor -> 'slow')::boolean, (v_cursor -> 'complete')::boolean,
                                  (v_cursor -> 'gated')::boolean, (v_cursor -> 'few')::boolean,
                                  (v_cursor ->> 'until')::timestamptz,
                                  (v_cursor ->> 'again')::timestamptz,
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
