-- Returns the job of a firing, as insert_jobs takes it. With overlap policy `queue`, the trigger is
-- its limit key: with max_running_per_key = 1, such jobs run one after another.
create or replace function jobforge_private.firing_job(p_firing jsonb) returns jsonb
language sql immutable
as $$
    select jsonb_strip_nulls(jsonb_build_object(
               'definition', p_firing -> 'definition', 'version', p_firing -> 'version',
               'queue', p_firing -> 'queue', 'priority', p_firing -> 'priority',
               'run_at', p_firing -> 'run_at', 'source', 'schedule',
               'source_ref', p_firing -> 'trigger_id',
               'limit_key', case p_firing ->> 'overlap'
                                when 'queue' then p_firing -> 'trigger_id' end))
           || jsonb_build_object('payload', p_firing -> 'payload')
$$;
