-- Returns the first invalid setting of a trigger and the rule that it breaks, or null. The meaning
-- of cron, template and filter is checked where they are read: before the call in Python, and by
-- the scheduler. Settings: docs/sql.md. Called by check_trigger.
create or replace function jobforge_private.trigger_fault(
    p_type text,
    p_settings jsonb,
    out field text,
    out rule text
)
language plpgsql
as $$
declare
    v_value jsonb;
    v_text text;
begin
    for field, v_value in select s.key, s.value from jsonb_each(p_settings) as s loop
        v_text := v_value #>> '{}';
        rule := case
            when field not in ('label', 'definition', 'version', 'queue', 'priority', 'payload',
                               'enabled')
                 and field <> all (case p_type
                     when 'schedule' then '{cron,timezone,catch_up,catch_up_limit,overlap,jitter_s,
                                            starts_at,ends_at}'::text[]
                     else '{event,filter,dedupe_window_s,dedupe_key}' end)
                then format('is not a setting of triggers of type %s', p_type)
            when v_value = 'null' then
                case when field in ('version', 'queue', 'starts_at', 'ends_at', 'dedupe_key')
                    then null else 'must not be null' end
            when field = 'payload' then
                case when jsonb_typeof(v_value) <> 'object' then 'must be an object'
                     when pg_column_size(v_value) > 262144 then 'is larger than 256 KiB' end
            when field = 'filter' then
                case when jsonb_typeof(v_value) <> 'array' or jsonb_array_length(v_value) > 50
                          or pg_column_size(v_value) > 65536
                    then 'must be a list of at most 50 conditions' end
            when field = 'enabled' then
                case when jsonb_typeof(v_value) <> 'boolean' then 'must be true or false' end
            when field in ('version', 'priority', 'catch_up_limit', 'jitter_s',
                           'dedupe_window_s') then
                case when jsonb_typeof(v_value) <> 'number' or v_text !~ '^-?\d{1,9}$'
                    then 'must be a whole number' end
            when jsonb_typeof(v_value) <> 'string' then 'must be a string'
        end;
        rule := coalesce(rule, case
            when v_value = 'null' then null
            when field in ('version', 'queue', 'priority') then
                (jobforge_private.job_fault(
                    jsonb_build_object('definition', 'any', field, v_value))).rule
            when field = 'definition' and v_text !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$'
                then 'must be a definition key'
            when field = 'label' and v_text !~ '^[^\x01-\x1f\x7f]{1,200}$'
                then 'must have 1 to 200 characters and no control characters'
            when field = 'cron' and v_text !~ '^[\x20-\x7e]{1,100}$'
                then 'must have 1 to 100 ASCII characters'
            when field = 'timezone' and v_text !~ '^[A-Za-z0-9_+/-]{1,64}$'
                then 'must be a time zone name, or tenant'
            when field = 'catch_up' and v_text not in ('none', 'last', 'all')
                then 'must be none, last or all'
            when field = 'overlap' and v_text not in ('allow', 'skip', 'queue', 'cancel_running')
                then 'must be allow, skip, queue or cancel_running'
            when field = 'catch_up_limit' and v_text::integer not between 1 and 100
                then 'must be between 1 and 100'
            when field = 'jitter_s' and v_text::integer not between 0 and 3600
                then 'must be between 0 and 3600'
            when field = 'dedupe_window_s' and v_text::integer not between 0 and 2592000
                then 'must be between 0 and 2592000'
            when field = 'event'
                 and v_text !~ '^(\*|[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}(\.\*)?)$'
                then 'must be an event name, or a prefix such as order.*'
            when field = 'dedupe_key' and length(v_text) not between 1 and 2000
                then 'must have 1 to 2000 characters'
            when field in ('starts_at', 'ends_at') then jobforge_private.time_fault(v_text, true)
        end);
        exit when rule is not null;
    end loop;
    if rule is null then
        field := null;
    end if;
end $$;
