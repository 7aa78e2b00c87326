-- Returns the signature of a value that the engine keeps in a session setting: a login can change
-- the setting, but cannot sign it. Null if the key is missing. Called by load_pending_count and
-- store_pending_count.
create or replace function jobforge_private.sign(p_text text) returns text
language sql stable
as $$
    select encode(sha256(k.value || sha256(k.value || convert_to(p_text, 'UTF8'))), 'hex')
      from jobforge.signing_key as k
$$;
