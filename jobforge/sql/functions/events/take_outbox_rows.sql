-- Deletes the outbox rows that p_deliveries names and returns them in order: only the caller
-- dispatches these events. With p_tenant_id, only rows of that tenant. Locks the rows in order of
-- ID. Called by record_deliveries.
create or replace function jobforge_private.take_outbox_rows(
    p_deliveries jsonb,
    p_tenant_id uuid
) returns jobforge.outbox[]
language sql
as $$
    with locked as materialized (
        select o.id
          from jobforge.outbox as o
         where o.id in (select (d.delivery ->> 'id')::uuid
                          from jsonb_array_elements(p_deliveries) as d(delivery))
           and o.tenant_id = coalesce(p_tenant_id, o.tenant_id)
           and not jobforge_private.is_erased(o.tenant_id)
         order by o.id
           for update
    ), taken as (
        delete from jobforge.outbox as o using locked as l where o.id = l.id returning o.*
    )
    select coalesce(array_agg(row(t.*)::jobforge.outbox order by t.id), '{}') from taken as t
$$;
