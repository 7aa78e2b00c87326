-- How many running jobs are under a limit and do not carry it, no more than p_most: they started
-- before it was set or while it was, and somebody has held their rows since, or regate_running
-- would have marked them. Called by pick_group while a limit is new.
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
