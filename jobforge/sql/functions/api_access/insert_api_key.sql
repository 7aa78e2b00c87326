-- Inserts an API key. Called by create_api_key and rotate_api_key. Raises JF002 (invalid hash or
-- lookup), JF005 (the lookup is taken), JF014 (the tenant is erased).
create or replace function jobforge_private.insert_api_key(p_key jobforge.api_keys) returns void
language plpgsql
as $$
begin
    perform jobforge_private.check_not_erased(p_key.tenant_id);
    if p_key.lookup is null or p_key.lookup !~ '^[A-Za-z0-9_-]{8}$' then
        perform jobforge_private.refuse('JF002', 'lookup must be 8 letters, digits, _ or -',
            '{"field": "lookup"}');
    elsif octet_length(p_key.hash) is distinct from 32 then
        perform jobforge_private.refuse('JF002',
            'hash must be a SHA-256 hash', '{"field": "hash"}');
    end if;
    insert into jobforge.api_keys select p_key.* on conflict (lookup) do nothing;
    if not found then
        perform jobforge_private.refuse('JF005', 'An API key with this lookup already exists',
            '{"field": "lookup"}');
    end if;
end $$;
