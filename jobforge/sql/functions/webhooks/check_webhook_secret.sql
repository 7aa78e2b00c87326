-- Refuses a webhook secret that cannot be sealed data. Called by create_webhook, edit_webhook and
-- rotate_webhook. Raises JF002.
create or replace function jobforge_private.check_webhook_secret(p_secret bytea) returns void
language plpgsql
as $$
begin
    -- A sealed secret has at least 32 bytes, a nonce and a tag.
    if p_secret is null or octet_length(p_secret) not between 60 and 1000 then
        perform jobforge_private.refuse('JF002', 'secret must be sealed', '{"field": "secret"}');
    end if;
end $$;
