-- Refuses a webhook's secret that cannot be a sealed one (JF002). Called by create_webhook and
-- rotate_webhook.
create or replace function jobforge_private.check_webhook_secret(p_secret bytea) returns void
language plpgsql
as $$
begin
    -- Sealed: 32 bytes, a nonce and a tag at least.
    if p_secret is null or octet_length(p_secret) not between 60 and 1000 then
        perform jobforge_private.refuse('JF002', 'secret must be sealed', '{"field": "secret"}');
    end if;
end $$;
