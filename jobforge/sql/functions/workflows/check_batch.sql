-- Refuses a batch with an invalid field, or with callbacks that could not be enqueued. Called by
-- create_batch. Raises JF002, JF007, JF009, JF010.
create or replace function jobforge_private.check_batch(p_batch jsonb) returns void
language plpgsql
as $$
declare
    v_field text;
begin
    perform jobforge_private.check_bounded('batch', p_batch);
    if jsonb_typeof(p_batch) is distinct from 'object' then
        perform jobforge_private.refuse('JF002',
            'batch must be a JSON object', '{"field": "batch"}');
    end if;
    select o.key into v_field from jsonb_each(p_batch) as o
     where o.key not in ('name', 'input', 'correlation_id', 'open', 'on_success', 'on_failure',
                         'on_complete')
        or o.key in ('name', 'correlation_id') and jsonb_typeof(o.value) <> 'string'
        or o.key = 'open' and jsonb_typeof(o.value) <> 'boolean'
     limit 1;
    if found then
        perform jobforge_private.refuse('JF002',
            format('%s is not a valid batch field, or its value is invalid', v_field),
            jsonb_build_object('field', v_field));
    end if;
    perform jobforge_private.check_name('name', coalesce(p_batch ->> 'name', 'batch'), 200);
    perform jobforge_private.check_name('correlation_id',
                                        coalesce(p_batch ->> 'correlation_id', 'none'), 255);
    perform jobforge_private.check_size('input', p_batch -> 'input');
    perform jobforge_private.check_callbacks(p_batch);
end $$;
