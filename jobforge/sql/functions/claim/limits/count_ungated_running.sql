-- Returns how many running jobs are subject to a limit but have no gate, p_most at most: they
-- started before the limit was set, and another transaction has held their rows since, or else
-- regate_running would have marked them. Called by count_startable_jobs while a limit is new.
create or replace function jobforge_private.count_ungated_running(
    p_kind text,
    p_queue text,
    p_tenant_id uuid,
    p_definition text,
    p_limit_key text,
    p_most integer
) returns bigint
language plpgsql
as $$
begin
    return (
        select count(*)
          from (select from jobforge.jobs as j
                 where j.state = 'running' and j.gate is null
                   and case p_kind when 'queue' then j.queue = p_queue
                                   when 'tenant' then j.tenant_id = p_tenant_id
                                   when 'definition' then j.definition = p_definition
                                   else j.tenant_id = p_tenant_id and j.definition = p_definition
                                        and j.limit_key = p_limit_key end
                 limit p_most) as unmarked);
end $$;
