-- Returns the unfinished jobs of a workflow and of its inner workflows for which no cancel was
-- requested. Called by cancel_nodes.
create or replace function jobforge_private.nodes_to_cancel(p_tenant_id uuid, p_id uuid)
returns uuid[]
language sql
as $$
    select array(
        select n.job_id from jobforge_private.list_nodes(p_tenant_id, p_id) as n
         where n.state in ('scheduled', 'blocked', 'queued', 'running'))
$$;
