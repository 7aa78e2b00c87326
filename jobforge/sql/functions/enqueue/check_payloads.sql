-- Checks jobs that differ only in their payloads: check_jobs for the arguments of enqueue_payloads.
-- Raises JF002 (with field and index) and JF007.
create or replace function jobforge_private.check_payloads(
    p_definition text,
    p_payloads jsonb,
    p_options jsonb
) returns void
language plpgsql
as $$
declare
    v_found record;
begin
    if jsonb_typeof(p_payloads) is distinct from 'array' or jsonb_array_length(p_payloads) > 50000
    then
        perform jobforge_private.refuse('JF002',
            'payloads must be a JSON array of at most 50000 objects', '{"field": "payloads"}');
    elsif jsonb_typeof(p_options) is distinct from 'object'
          or p_options ?| '{definition,payload,key,key_mode,key_window_s,on_conflict,after,
                            on_parent_failure}'::text[] then
        perform jobforge_private.refuse('JF002',
            'options must be an object without keys and parents', '{"field": "options"}');
    end if;
    select min(e.index) filter (where jsonb_typeof(e.payload) <> 'object') - 1 as bad,
           min(e.index) filter (where pg_column_size(e.payload) > 262144) - 1 as large,
           min(e.index) filter (where not jobforge_private.is_bounded(e.payload)) - 1 as unbounded,
           max(pg_column_size(e.payload)) as largest
      into v_found
      from jsonb_array_elements(p_payloads) with ordinality as e(payload, index);
    -- 500 bytes: see docs/query-plans.md, "Sizes of JSON values".
    if v_found.largest > 500 and jsonb_path_exists(p_payloads, 'strict $.**{66 to last}') then
        perform jobforge_private.refuse('JF007', 'The payload is nested more than 64 levels deep',
            '{"field": "payload", "limit": 64}');
    elsif v_found.bad is not null then
        perform jobforge_private.refuse('JF002', 'Each job and its payload must be JSON objects',
            jsonb_build_object('field', 'payload', 'index', v_found.bad));
    elsif v_found.large is not null then
        perform jobforge_private.refuse_large_payload(v_found.large::integer);
    elsif v_found.unbounded is not null then
        perform jobforge_private.refuse_unbounded('payload',
            p_payloads -> v_found.unbounded::integer,
            jsonb_build_object('index', v_found.unbounded));
    end if;
    perform jobforge_private.check_job(p_definition, '{}', p_options);
end $$;
