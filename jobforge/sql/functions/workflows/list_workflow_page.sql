-- Returns a page of workflows or batches as documents (show_workflow). Called by list_workflows and
-- list_batches. Raises JF002.
create or replace function jobforge_private.list_workflow_page(
    p_tenant_id uuid,
    p_kind text,
    p_filter jsonb,
    p_limit integer,
    p_before uuid
) returns setof jsonb
language plpgsql stable
as $$
declare
    v_state text := p_filter ->> 'state';
begin
    perform jobforge_private.check_limit(p_limit, 200);
    if jsonb_typeof(p_filter) is distinct from 'object'
       or p_filter - '{name,state}'::text[] <> '{}'
       or v_state not in ('running', 'succeeded', 'failed', 'canceled') then
        perform jobforge_private.refuse('JF002',
            'filter must have only a name and a state: running, succeeded, failed or canceled',
            '{"field": "filter"}');
    end if;
    return query
    select jobforge_private.show_workflow(w, 67108864 / p_limit)
      from jobforge.workflows as w
     where w.tenant_id = p_tenant_id and w.kind = p_kind and w.parent_id is null
       and w.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       and (v_state is null or w.state = v_state)
       and (p_filter ->> 'name' is null or w.name = p_filter ->> 'name')
     order by w.id desc
     limit p_limit;
end $$;
