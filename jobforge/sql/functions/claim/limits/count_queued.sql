-- Returns how many jobs of a tenant are queued in a queue, p_limit at most: those with a gate or
-- those without, which have separate indexes. Called by queued_by_tenant.
create or replace function jobforge_private.count_queued(
    p_queue text,
    p_tenant_id uuid,
    p_is_gated boolean,
    p_limit integer
) returns bigint
language plpgsql stable
as $$
begin
    if p_is_gated then
        return (select count(*) from (
            select from jobforge.jobs as j
             where j.queue = p_queue and j.tenant_id = p_tenant_id and j.state = 'queued'
               and j.gate is not null
             limit p_limit) as g);
    end if;
    return (select count(*) from (
        select from jobforge.jobs as j
         where j.queue = p_queue and j.tenant_id = p_tenant_id and j.state = 'queued'
           and j.gate is null
         limit p_limit) as r);
end $$;
