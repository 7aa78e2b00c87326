-- Returns a job filter as a record. Called by matching_jobs and the operations. Raises JF002 for an
-- unknown field, state or time.
create or replace function jobforge_private.read_filter(p_filter jsonb) returns jobforge.job_filter
language plpgsql
as $$
declare
    f jobforge.job_filter;
    v_field text;
    v_fault text;
begin
    perform jobforge_private.check_bounded('filter', p_filter);
    if jsonb_typeof(p_filter) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'filter must be a JSON object',
            '{"field": "filter"}');
    end if;
    for v_field in select jsonb_object_keys(p_filter) loop
        if v_field not in ('state', 'definition', 'queue', 'tag', 'source', 'key', 'correlation_id',
                           'fingerprint', 'created_after', 'created_before') then
            v_fault := 'is not a valid filter field';
        elsif v_field like 'created_%' then
            v_fault := jobforge_private.time_fault(p_filter ->> v_field, true);
        end if;
        if v_fault is not null then
            perform jobforge_private.refuse('JF002', format('%s %s', v_field, v_fault),
                jsonb_build_object('field', v_field));
        end if;
    end loop;

    if p_filter ? 'state' then
        f.states := array(select jsonb_array_elements_text(
            case jsonb_typeof(p_filter -> 'state') when 'array' then p_filter -> 'state'
                 else jsonb_build_array(p_filter -> 'state') end));
        if not f.states <@ '{scheduled,blocked,queued,running,canceling,succeeded,canceled,dead,
                              failed}'::text[]
           or f.states = '{}' then
            perform jobforge_private.refuse('JF002', 'state must be a known job state',
                '{"field": "state"}');
        end if;
    end if;
    f.wants_failed := coalesce('failed' = any (f.states), false);
    f.wants_canceling := coalesce('canceling' = any (f.states), false);
    f.wants_live := f.states is null
        or f.states && '{scheduled,blocked,queued,running,canceling,dead,failed}'::text[];
    f.wants_finished := f.states is null or f.states && '{succeeded,canceled,failed}'::text[];
    f.definition := p_filter ->> 'definition';
    f.queue := p_filter ->> 'queue';
    f.tag := p_filter ->> 'tag';
    f.source := p_filter ->> 'source';
    f.key := p_filter ->> 'key';
    f.correlation_id := p_filter ->> 'correlation_id';
    f.fingerprint := p_filter ->> 'fingerprint';
    f.created_after := (p_filter ->> 'created_after')::timestamptz;
    f.created_before := (p_filter ->> 'created_before')::timestamptz;
    return f;
end $$;
