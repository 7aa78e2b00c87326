-- Updates the idempotency key of a job whose content an enqueue has replaced: the key now covers
-- the new payload and expires as this enqueue requires. Called by reserve_keys.
create or replace function jobforge_private.renew_key(p_tenant_id uuid, p_job jsonb) returns void
language sql
as $$
    update jobforge.idempotency_keys as k
       set payload_hash = sha256(convert_to(coalesce(n.payload, '{}')::text, 'UTF8')),
           expires_at = jobforge_private.key_expires_at(
               coalesce(n.key_mode, 'retained'), n.key_window_s, jobforge_private.now()),
           while_active = coalesce(n.key_mode = 'active', false)
      from jsonb_to_record(p_job) as n(
           definition text, key text, key_mode text, key_window_s double precision, payload jsonb)
     where k.tenant_id = p_tenant_id and k.definition = split_part(n.definition, '@', 1)
       and k.key = n.key
$$;
