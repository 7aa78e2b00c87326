-- Returns the head of a tenant in a queue, which is the position of its first ungated ready job, or
-- null. Called by pick_gated_round. Takes no locks.
create or replace function jobforge_private.find_tenant_head(p_queue text, p_tenant_id uuid)
returns jobforge.tenant_head
language plpgsql
as $$
declare
    v_head jobforge.tenant_head;
begin
    select j.tenant_id, - j.priority::integer, j.run_at, j.id, 0, j.ctid into v_head
      from jobforge.jobs as j
     where j.queue = p_queue and j.tenant_id = p_tenant_id
       and j.state = 'queued' and j.gate is null
     order by - j.priority::integer, j.run_at, j.id
     limit 1;
    return v_head;
end $$;
