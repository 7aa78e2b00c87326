-- Returns whether a value is a valid wait: {kind, name, index} of the waiting step; for an event,
-- what its data must contain (match) and from when on events count (since, in seconds of Unix
-- time); for other jobs, their IDs (jobs).
create or replace function jobforge_private.is_valid_wait(p_wait jsonb) returns boolean
language sql immutable
as $$
    select jsonb_path_exists(p_wait, 'strict $ ? (
               (@.kind == "sleep" || @.kind == "event" || @.kind == "gather")
               && @.name.type() == "string" && @.name like_regex "^.{1,200}$"
               && @.index >= 0 && @.index < 1000000)', silent => true)
       and p_wait ->> 'index' ~ '^\d+$'
       and case when p_wait ? 'match'
                then jsonb_typeof(p_wait -> 'match') = 'object'
                     and pg_column_size(p_wait -> 'match') <= 8192
                     and jobforge_private.is_bounded(p_wait -> 'match')
                else true end
       and case when p_wait ? 'since'
                then p_wait ->> 'kind' = 'event' and jsonb_typeof(p_wait -> 'since') = 'number'
                     and jsonb_path_exists(p_wait, '$.since ? (@ >= 0 && @ < 253402300800)')
                else true end
       and case when p_wait ->> 'kind' = 'gather'
                then jsonb_typeof(p_wait -> 'jobs') = 'array'
                     and jsonb_array_length(p_wait -> 'jobs') between 1 and 10000
                     and not jsonb_path_exists(p_wait, '$.jobs[*] ? (!(@ like_regex
                         "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))')
                else not p_wait ? 'jobs' end
$$;
