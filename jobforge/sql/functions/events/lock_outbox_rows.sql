-- Locks up to p_limit rows of the outbox that no scheduler has reserved, and returns their IDs;
-- with p_tenant_id, only that tenant's. After the position p_after, rows come in order. Without it,
-- all tenants get an equal share, each its oldest rows first, so that neither a tenant that emits
-- many events delays the others, nor an event that was committed late stays behind. Skips locked
-- rows. Called by pending_events.
create or replace function jobforge_private.lock_outbox_rows(
    p_limit integer,
    p_after uuid,
    p_tenant_id uuid
) returns uuid[]
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_tenants uuid[];
begin
    if p_after is not null then
        return array(
            select o.id from jobforge.outbox as o
             where o.id > p_after and coalesce(o.reserved_until, '-infinity') <= v_now
               and o.tenant_id = coalesce(p_tenant_id, o.tenant_id)
             order by o.id
             limit p_limit
               for update skip locked);
    end if;
    with recursive found as (
        (select o.tenant_id from jobforge.outbox as o
          where o.tenant_id = coalesce(p_tenant_id, o.tenant_id)
          order by o.tenant_id
          limit 1)
        union all
        select (select o.tenant_id from jobforge.outbox as o
                 where o.tenant_id > f.tenant_id
                 order by o.tenant_id
                 limit 1)
          from found as f
         where f.tenant_id is not null and p_tenant_id is null
    )
    select array_agg(f.tenant_id) into v_tenants from found as f where f.tenant_id is not null;
    return array(
        select s.id
          from unnest(v_tenants) as t(tenant_id)
         cross join lateral (
               select o.id from jobforge.outbox as o
                where o.tenant_id = t.tenant_id
                  and coalesce(o.reserved_until, '-infinity') <= v_now
                order by o.event_id, o.replay
                limit greatest(1, p_limit / cardinality(v_tenants))
                  for update skip locked) as s
         limit p_limit);
end $$;
