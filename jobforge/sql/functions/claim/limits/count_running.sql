-- Returns how many running jobs use a slot of a limit, p_most at most, counted from their rows. A
-- separate function, so that the count is a later statement than the lock that protects it. Called
-- by count_startable_jobs and explain_limits.
create or replace function jobforge_private.count_running(
    p_kind text,
    p_queue text,
    p_tenant_id uuid,
    p_definition text,
    p_limit_key text,
    p_most integer
) returns bigint
language plpgsql
as $$
declare
    v_count bigint;
begin
    case p_kind
        when 'queue' then
            select count(*) into v_count from (
                select from jobforge.jobs as j
                 where j.queue = p_queue and j.state = 'running' and j.gate is not null
                 limit p_most) as held;
        when 'tenant' then
            select count(*) into v_count from (
                select from jobforge.jobs as j
                 where j.tenant_id = p_tenant_id and j.state = 'running' and j.gate is not null
                 limit p_most) as held;
        when 'definition' then
            select count(*) into v_count from (
                select from jobforge.jobs as j
                 where j.definition = p_definition and j.state = 'running' and j.gate is not null
                 limit p_most) as held;
        when 'key' then
            select count(*) into v_count from (
                select from jobforge.jobs as j
                 where j.tenant_id = p_tenant_id and j.definition = p_definition
                   and j.limit_key = p_limit_key and j.state = 'running' and j.gate is not null
                 limit p_most) as held;
    end case;
    return v_count;
end $$;
