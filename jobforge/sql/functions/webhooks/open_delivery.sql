-- Workers call this for a message that they are about to send: returns the URL, the message, and
-- the sealed secrets that sign it, newest first. Returns no row if the endpoint was deleted or the
-- message is older than the history. Raises JF001, JF006, JF014.
create or replace function jobforge.open_delivery(
    p_id uuid,
    p_delivery_id uuid,
    p_tenant_id uuid default null
) returns table (
    url text, event text, message text, secrets bytea[], disabled_reason text,
    delivered_at timestamptz
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    return query
    select w.url, d.event, jobforge_private.readable(d.message)::text,
           case when w.previous_secret_until > jobforge_private.now()
                then array[w.secret, w.previous_secret] else array[w.secret] end,
           w.disabled_reason, d.delivered_at
      from jobforge.webhook_endpoints as w
      join jobforge.webhook_deliveries as d
        on d.tenant_id = w.tenant_id and d.endpoint_id = w.id
     where w.tenant_id = v_tenant and w.id = p_id and d.id = p_delivery_id;
end $$;
