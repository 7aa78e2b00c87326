-- Reserves an idempotency key for the job p_job_id, or returns the job that holds the key and
-- whether that job was enqueued with the same payload. A key is held until it expires; a key of
-- mode 'active' only while its job can still run. Called by reserve_keys. Waits for an open
-- transaction that inserts or replaces the same key, but not for one that has only read it.
create or replace function jobforge_private.reserve_key(
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
    v_now timestamptz := jobforge_private.now();
    v_expires_at timestamptz := jobforge_private.key_expires_at(p_mode, p_window_s, v_now);
    v_hash bytea := sha256(convert_to(p_payload::text, 'UTF8'));
    v_held jobforge.idempotency_keys;
begin
    loop
        insert into jobforge.idempotency_keys as k
               (tenant_id, job_id, created_at, expires_at, while_active, definition, key,
                payload_hash)
        values (p_tenant_id, p_job_id, v_now, v_expires_at,
                p_mode = 'active', p_definition, p_key, v_hash)
        on conflict on constraint idempotency_keys_pkey do nothing;
        if found then
            return query select p_job_id, 'created', true;
            return;
        end if;

        -- The first pass reads without a lock, so that enqueues that only find the key do not wait
        -- for each other. A key that may be replaced is locked and checked again in the second
        -- pass.
        for v_pass in 1 .. 2 loop
            if v_pass = 1 then
                select k.* into v_held
                  from jobforge.idempotency_keys as k
                 where k.tenant_id = p_tenant_id and k.definition = p_definition
                   and k.key = p_key;
            else
                select k.* into v_held
                  from jobforge.idempotency_keys as k
                 where k.tenant_id = p_tenant_id and k.definition = p_definition
                   and k.key = p_key
                   for update;
            end if;
            exit when not found;
            if v_held.expires_at > v_now
               and (not v_held.while_active
                    or jobforge_private.is_same_call(v_held.job_id, p_job_id)
                    or exists (select from jobforge.jobs as j
                                where j.tenant_id = p_tenant_id and j.id = v_held.job_id
                                  and j.state <> 'dead'))
            then
                return query select v_held.job_id, 'existing', v_held.payload_hash = v_hash;
                return;
            end if;
        end loop;
        -- Retention deleted the key between the statements: try again.
        continue when v_held.job_id is null;

        delete from jobforge.idempotency_keys as k
         where k.tenant_id = p_tenant_id and k.definition = p_definition and k.key = p_key;
    end loop;
end $$;
