-- Creates an API key in place of an old one, with the same tenant, role, name, scopes and lifetime,
-- but no later expiry than p_ends_by. The old key expires after p_overlap_s (30 days at most), or
-- earlier if it would have. Returns the ID of the new key. Locks the old key. Raises JF001, JF002,
-- JF004, JF005 (the old key has expired or was revoked, or the lookup is taken), JF006.
create or replace function jobforge.rotate_api_key(
    p_id uuid,
    p_lookup text,
    p_hash bytea,
    p_overlap_s double precision default 0,
    p_ends_by timestamptz default null,
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old jobforge.api_keys :=
        jobforge_private.lock_api_key(jobforge_private.tenant_or_all(p_tenant_id), p_id);
    v_new jobforge.api_keys := v_old;
    v_now timestamptz := jobforge_private.now();
begin
    if p_overlap_s is null or not p_overlap_s between 0 and 2592000 then
        perform jobforge_private.refuse('JF002', 'overlap_s must be at most 30 days',
            '{"field": "overlap_s"}');
    elsif p_ends_by <= v_now then
        perform jobforge_private.refuse('JF002', 'ends_by must be in the future',
            '{"field": "ends_by"}');
    elsif v_old.revoked_at is not null or v_old.expires_at <= v_now then
        perform jobforge_private.refuse('JF005',
            'The API key has expired or was revoked; create a new key',
            jsonb_build_object('id', p_id));
    end if;
    v_new.id := jobforge_private.uuid7();
    v_new.created_at := v_now;
    v_new.expires_at := least(v_now + (v_old.expires_at - v_old.created_at), p_ends_by);
    v_new.last_used_at := null;
    v_new.rotated_from := p_id;
    v_new.lookup := p_lookup;
    v_new.created_by := jobforge_private.actor();
    v_new.hash := p_hash;
    perform jobforge_private.insert_api_key(v_new);
    update jobforge.api_keys as k
       set expires_at = least(k.expires_at, v_now + make_interval(secs => p_overlap_s))
     where k.id = p_id;
    perform jobforge_private.audit(v_old.tenant_id, 'key.rotate', p_id::text,
        jsonb_build_object('new_id', v_new.id, 'overlap_s', p_overlap_s));
    return v_new.id;
end $$;
