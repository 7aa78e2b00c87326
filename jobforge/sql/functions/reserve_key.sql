-- Takes an idempotency key for the job p_job_id, or tells which job holds it, and whether that
-- was enqueued with the same payload. A key is held until it expires; one taken with mode
-- 'active' only while its job can still run. Called by enqueue_jobs. Waits for a transaction in
-- flight that takes the same key.
create or replace function jobforge.reserve_key(
    p_tenant_id uuid,
    p_definition text,
    p_key text,
    p_mode text,
    p_window_s double precision,
    p_job_id uuid,
    p_payload jsonb
) returns table (job_id uuid, status text, is_same boolean)
language plpgsql
as $$
declare
    v_now timestamptz := jobforge.now();
    v_expires_at timestamptz := v_now + case p_mode
        when 'window' then make_interval(secs => p_window_s)
        when 'retained' then interval '30 days' end;
    v_hash bytea := sha256(convert_to(p_payload::text, 'UTF8'));
    v_held jobforge.idempotency_keys;
begin
    loop
        insert into jobforge.idempotency_keys as k
               (tenant_id, job_id, created_at, expires_at, while_active, definition, key,
                payload_hash)
        values (p_tenant_id, p_job_id, v_now, coalesce(v_expires_at, 'infinity'),
                p_mode = 'active', p_definition, p_key, v_hash)
        on conflict on constraint idempotency_keys_pkey do nothing;
        if found then
            return query select p_job_id, 'created', true;
            return;
        end if;

        select k.* into v_held
          from jobforge.idempotency_keys as k
         where k.tenant_id = p_tenant_id and k.definition = p_definition and k.key = p_key
           for update;
        -- Gone between the two statements: retention removed it. Try again.
        continue when not found;

        if v_held.expires_at > v_now
           and (not v_held.while_active
                or jobforge.is_same_batch(v_held.job_id, p_job_id)
                or exists (select from jobforge.jobs as j
                            where j.tenant_id = p_tenant_id and j.id = v_held.job_id
                              and j.state <> 'dead'))
        then
            return query select v_held.job_id, 'existing', v_held.payload_hash = v_hash;
            return;
        end if;

        delete from jobforge.idempotency_keys as k
         where k.tenant_id = p_tenant_id and k.definition = p_definition and k.key = p_key;
    end loop;
end $$;
