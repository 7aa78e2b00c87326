-- Returns the jobs to insert in place of finished or dead ones, in order: the same jobs, with the
-- same parents or their replacements. Called by retry_workflow.
create or replace function jobforge_private.build_retries(
    p_tenant_id uuid,
    p_old uuid[],
    p_new uuid[]
) returns jsonb
language sql stable
as $$
    select jsonb_agg(
               jsonb_strip_nulls(jsonb_build_object(
                   'definition', o.definition, 'version', o.version, 'queue', o.queue,
                   'priority', o.priority, 'max_attempts', o.allowance, 'timeout_s', o.timeout_s,
                   'limit_key', o.limit_key, 'tags', to_jsonb(o.tags),
                   'correlation_id', o.correlation_id, 'traceparent', o.traceparent,
                   'source', o.source, 'source_ref', o.source_ref, 'retry_of', o.id,
                   'created_by', jobforge_private.actor(), 'flags', 2,
                   'after', e.parents, 'on_parent_failure', e.policy))
               || jsonb_build_object('payload', o.payload) order by r.place)
      from unnest(p_old) with ordinality as r(id, place)
     cross join lateral (
        select j.id, j.definition, j.version, j.queue, j.priority, j.allowance, j.timeout_s,
               j.limit_key, j.tags, j.correlation_id, j.traceparent, j.source, j.source_ref,
               j.payload
          from jobforge.jobs as j where j.tenant_id = p_tenant_id and j.id = r.id
        union all
        select f.id, f.definition, f.version, f.queue, f.priority,
               coalesce(f.allowance, f.max_attempts), f.timeout_s,
               f.limit_key, f.tags, f.correlation_id, f.traceparent, f.source, f.source_ref,
               f.payload
          from jobforge.finished_jobs as f where f.tenant_id = p_tenant_id and f.id = r.id) as o
     cross join lateral (
        select jsonb_agg(coalesce(p_new[array_position(p_old, d.parent_id)], d.parent_id))
                   as parents,
               min(d.on_parent_failure) as policy
          from jobforge.dependencies as d
         where d.tenant_id = p_tenant_id and d.child_id = r.id) as e
$$;
