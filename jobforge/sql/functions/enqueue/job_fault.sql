-- Returns the first invalid field of a job and the rule that it breaks, or null. p_options is a job
-- without its payload. Called by check_jobs, check_job, check_event and trigger_fault. Fields:
-- docs/sql.md.
create or replace function jobforge_private.job_fault(
    p_options jsonb,
    out field text,
    out rule text
)
language plpgsql
as $$
declare
    v_value jsonb;
    v_text text;
begin
    if not p_options ? 'definition' then
        field := 'definition';
        rule := 'is required';
        return;
    end if;
    for field, v_value in select o.key, o.value from jsonb_each(p_options) as o loop
        v_text := v_value #>> '{}';
        rule := case
            when field in ('priority', 'version', 'max_attempts', 'timeout_s') then
                case when jsonb_typeof(v_value) <> 'number' or v_text !~ '^-?\d{1,12}$'
                    then 'must be a whole number' end
            when field in ('delay_s', 'expires_in_s', 'key_window_s') then
                case when jsonb_typeof(v_value) <> 'number' or v_text::numeric not between 0 and 1e9
                    then 'must be a number of seconds from 0 to 1e9' end
            when field = 'tags' then
                case when jsonb_typeof(v_value) <> 'array' or jsonb_array_length(v_value) > 50
                          or length(v_text) > 4000
                          or jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "string")')
                    then 'must be a list of at most 50 strings' end
            when field = 'after' then
                case when jsonb_typeof(v_value) <> 'array'
                          or jsonb_array_length(v_value) not between 1 and 50000
                          or jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "string" ||
                 !(@ like_regex "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$" flag "i"))')
                    then 'must be a list of job IDs' end
            when field = 'far_future' then
                case when jsonb_typeof(v_value) <> 'boolean' then 'must be true or false' end
            when field in ('definition', 'queue', 'run_at', 'expires_at', 'key', 'key_mode',
                           'on_conflict', 'limit_key', 'correlation_id', 'traceparent',
                           'created_by', 'artifact_ref', 'on_parent_failure') then
                case when jsonb_typeof(v_value) <> 'string' then 'must be a string' end
            else 'is not a valid job field'
        end;
        rule := coalesce(rule, case field
            when 'definition' then case
                when v_text !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}(@[1-9][0-9]{0,8})?$'
                then 'must be a definition key or key@version' end
            when 'version' then case when v_text::numeric not between 1 and 1e9
                then 'must be at least 1' end
            when 'queue' then case when v_text !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,49}$'
                then 'must be a name of at most 50 letters, digits and _ . : -' end
            when 'priority' then case when v_text::numeric not between -32768 and 32767
                then 'must be between -32768 and 32767' end
            when 'max_attempts' then case when v_text::numeric not between 1 and 1000
                then 'must be between 1 and 1000' end
            when 'timeout_s' then case when v_text::numeric not between 1 and 604800
                then 'must be between 1 and 604800' end
            when 'run_at' then
                jobforge_private.time_fault(v_text, p_options @> '{"far_future": true}')
            when 'expires_at' then jobforge_private.time_fault(v_text, true)
            when 'delay_s' then case
                when v_text::numeric > 31622400 and not p_options @> '{"far_future": true}'
                then 'is more than one year ahead; set far_future to allow it' end
            when 'key_mode' then case when v_text not in ('retained', 'active', 'window')
                then 'must be retained, active or window'
                when v_text = 'window' and not p_options ? 'key_window_s'
                then 'window requires key_window_s' end
            when 'on_conflict' then case when v_text not in ('existing', 'replace', 'raise')
                then 'must be existing, replace or raise' end
            when 'on_parent_failure' then case when v_text not in ('cancel', 'run', 'wait')
                then 'must be cancel, run or wait' end
            when 'traceparent' then case when v_text !~ '^[0-9a-f-]{1,128}$'
                then 'must be a W3C traceparent' end
            when 'artifact_ref' then case when length(v_text) > 2000
                then 'must have at most 2000 characters' end
            else case when field in ('key', 'limit_key') and v_text !~ '^[^\x01-\x1f\x7f]{1,255}$'
                       or field in ('correlation_id', 'created_by') and length(v_text) > 255
                then 'must have 1 to 255 characters and no control characters' end
        end);
        exit when rule is not null;
    end loop;
    if rule is null then
        field := null;
    end if;
end $$;
