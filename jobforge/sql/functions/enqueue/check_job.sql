-- Checks one job whose payload is an object: check_jobs for one job. Called by check_payloads.
-- Raises JF002 and JF007.
create or replace function jobforge_private.check_job(
    p_definition text,
    p_payload jsonb,
    p_options jsonb
) returns void
language plpgsql
as $$
declare
    v_fault record;
begin
    if pg_column_size(p_payload) > 262144 then
        perform jobforge_private.refuse_large_payload(0);
    elsif not jobforge_private.is_bounded(p_payload) then
        perform jobforge_private.refuse_unbounded('payload', p_payload, '{"index": 0}');
    -- 500 bytes: see docs/query-plans.md, "Sizes of JSON values".
    elsif pg_column_size(p_payload) > 500
          and jsonb_path_exists(p_payload, 'strict $.**{65 to last}') then
        perform jobforge_private.refuse('JF007', 'The payload is nested more than 64 levels deep',
            '{"field": "payload", "limit": 64}');
    elsif p_options = '{}'
          and p_definition ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}(@[1-9][0-9]{0,8})?$' then
        return;
    end if;
    if not jobforge_private.is_bounded(p_options) then
        perform jobforge_private.refuse_unbounded('options', p_options, '{"index": 0}');
    end if;
    v_fault := jobforge_private.job_fault(
        p_options || jsonb_build_object('definition', p_definition));
    if v_fault.field is not null then
        perform jobforge_private.refuse('JF002', format('%s %s', v_fault.field, v_fault.rule),
            jsonb_build_object('field', v_fault.field, 'index', 0));
    end if;
end $$;
