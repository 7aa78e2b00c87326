-- Reserves an Idempotency-Key for a request and returns null, or returns the request that used it
-- within the last 24 hours. Called by enqueue_jobs_once. Waits for an open transaction that uses
-- the same key.
create or replace function jobforge_private.reserve_request(
    p_tenant_id uuid,
    p_key text,
    p_body_hash bytea
) returns jobforge.idempotent_requests
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_held jobforge.idempotent_requests;
begin
    loop
        insert into jobforge.idempotent_requests (tenant_id, created_at, key, body_hash)
        values (p_tenant_id, v_now, p_key, p_body_hash)
        on conflict on constraint idempotent_requests_pkey do nothing;
        if found then
            return null;
        end if;
        select r.* into v_held
          from jobforge.idempotent_requests as r
         where r.tenant_id = p_tenant_id and r.key = p_key
           for update;
        -- Retention deleted the key between the statements: try again.
        continue when not found;
        if v_held.created_at > v_now - interval '24 hours' then
            return v_held;
        end if;
        delete from jobforge.idempotent_requests as r
         where r.tenant_id = p_tenant_id and r.key = p_key;
    end loop;
end $$;
