-- The jobs of a workflow and of those within it that have not ended and were not asked to. Called
-- by cancel_nodes.
create or replace function jobforge_private.nodes_to_cancel(p_tenant_id uuid, p_id uuid)
returns uuid[]
language sql
as $$
    select array(
        select n.job_id from jobforge_private.list_nodes(p_tenant_id, p_id) as n
         where n.state in ('scheduled', 'blocked', 'queued', 'running'))
$$;
