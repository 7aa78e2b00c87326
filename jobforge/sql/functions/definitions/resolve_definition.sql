-- Returns the definition that an enqueue names, with the settings that its jobs copy. Called by
-- insert_jobs, insert_payloads, replace_job and check_callbacks. Raises JF009 (unknown) and JF010
-- (inactive).
create or replace function jobforge_private.resolve_definition(p_name text, p_version integer)
returns jobforge.named_definition
language plpgsql
as $$
declare
    v_definition jobforge.definitions;
begin
    select * into v_definition from jobforge_private.find_definition(p_name, p_version);
    if not found then
        perform jobforge_private.refuse('JF009',
            format('Unknown definition ''%s''', p_name || coalesce('@' || p_version, '')),
            jsonb_build_object('definition', p_name, 'version', p_version));
    elsif not v_definition.is_active then
        perform jobforge_private.refuse('JF010',
            format('Definition ''%s'' is not active', v_definition.key),
            jsonb_build_object('definition', v_definition.key, 'version', v_definition.version));
    end if;
    return row(
        p_name, p_version, v_definition.key, v_definition.version, v_definition.queue,
        v_definition.max_attempts,
        v_definition.max_running_per_key is not null or v_definition.rate_limit_per_key is not null,
        v_definition.max_running is not null or v_definition.rate_limit is not null
            or v_definition.paused_at is not null,
        v_definition.hooks::integer)::jobforge.named_definition;
end $$;
