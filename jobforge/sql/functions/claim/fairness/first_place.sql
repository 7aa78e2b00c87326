-- The place of a tenant's first plain job in a queue, or null.
create or replace function jobforge_private.first_place(p_queue text, p_tenant_id uuid)
returns jobforge.turn
language plpgsql
as $$
declare
    v_place jobforge.turn;
begin
    select j.tenant_id, - j.priority::integer, j.run_at, j.id, 0, j.ctid into v_place
      from jobforge.jobs as j
     where j.queue = p_queue and j.tenant_id = p_tenant_id
       and j.state = 'queued' and j.gate is null
     order by - j.priority::integer, j.run_at, j.id
     limit 1;
    return v_place;
end $$;
