-- Inserts ready jobs of one definition that have no limit, and no options but created_by. Does what
-- insert_payloads does, with less work per job and per call. The nth job gets the ID
-- nth_id(p_first_id, n). Called by enqueue_payloads, which has checked all arguments.
create or replace function jobforge_private.insert_plain_jobs(
    p_tenant_id uuid,
    p_payloads jsonb,
    p_first_id uuid,
    p_now timestamptz,
    p_definition text,
    p_version integer,
    p_queue text,
    p_max_attempts integer,
    p_flags smallint,
    p_created_by text
) returns void
language plpgsql
as $$
declare
    -- The parts of nth_id that are the same for all jobs.
    v_stem text := left(p_first_id::text, 28);
    v_number bigint := ('x' || right(p_first_id::text, 8))::bit(32)::bigint & 2147483647;
begin
    insert into jobforge.jobs (
           tenant_id, id, created_at, run_at, queued_at, version, max_attempts, allowance, flags,
           state, definition, queue, created_by, payload)
    select p_tenant_id, (v_stem || lpad(to_hex(v_number + e.index), 8, '0'))::uuid, p_now, p_now,
           p_now, p_version, p_max_attempts, p_max_attempts, p_flags, 'queued', p_definition,
           p_queue, p_created_by, e.payload
      from jsonb_array_elements(p_payloads) with ordinality as e(payload, index);
end $$;
