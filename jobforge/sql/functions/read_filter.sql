-- A job filter as a record. Raises JF002 for an unknown field, state or time. Called by
-- matching_jobs.
create or replace function jobforge.read_filter(
    p_filter jsonb,
    out states text[],
    out wants_live boolean,
    out wants_finished boolean,
    out wants_failed boolean,
    out wants_canceling boolean,
    out definition text,
    out queue text,
    out tag text,
    out source text,
    out key text,
    out correlation_id text,
    out fingerprint text,
    out created_after timestamptz,
    out created_before timestamptz
)
language plpgsql stable
as $$
declare
    v_field text;
    v_fault text;
begin
    if jsonb_typeof(p_filter) is distinct from 'object' then
        perform jobforge.refuse('JF002', 'a filter must be a JSON object', '{"field": "filter"}');
    end if;
    for v_field in select f.key from jsonb_each(p_filter) as f(key, value) loop
        if v_field not in ('state', 'definition', 'queue', 'tag', 'source', 'key', 'correlation_id',
                           'fingerprint', 'created_after', 'created_before') then
            v_fault := 'is not a field of a filter';
        elsif v_field like 'created_%' then
            v_fault := jobforge.time_fault(p_filter ->> v_field, true);
        end if;
        if v_fault is not null then
            perform jobforge.refuse('JF002', format('%s %s', v_field, v_fault),
                jsonb_build_object('field', v_field));
        end if;
    end loop;

    if p_filter ? 'state' then
        states := array(select jsonb_array_elements_text(
            case jsonb_typeof(p_filter -> 'state') when 'array' then p_filter -> 'state'
                 else jsonb_build_array(p_filter -> 'state') end));
        if not states <@ '{scheduled,blocked,queued,running,canceling,succeeded,canceled,dead,failed}'::text[]
           or states = '{}' then
            perform jobforge.refuse('JF002', 'state is none of the known states',
                '{"field": "state"}');
        end if;
    end if;
    wants_failed := coalesce('failed' = any (states), false);
    wants_canceling := coalesce('canceling' = any (states), false);
    wants_live := states is null or states && '{scheduled,blocked,queued,running,canceling,dead,failed}'::text[];
    wants_finished := states is null or states && '{succeeded,canceled,failed}'::text[];
    definition := p_filter ->> 'definition';
    queue := p_filter ->> 'queue';
    tag := p_filter ->> 'tag';
    source := p_filter ->> 'source';
    key := p_filter ->> 'key';
    correlation_id := p_filter ->> 'correlation_id';
    fingerprint := p_filter ->> 'fingerprint';
    created_after := (p_filter ->> 'created_after')::timestamptz;
    created_before := (p_filter ->> 'created_before')::timestamptz;
end $$;
