-- PostgREST calls this before each request (db-pre-request): sets the tenant of the transaction
-- from the claim tenant_id or app_metadata.tenant_id of the verified JWT. A token without one
-- leaves the tenant unset, so no row is visible.
create or replace function jobforge.pre_request() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_claims jsonb := nullif(current_setting('request.jwt.claims', true), '')::jsonb;
begin
    perform set_config('app.tenant_id',
        coalesce(v_claims ->> 'tenant_id', v_claims #>> '{app_metadata,tenant_id}', ''), true);
    perform set_config('app.actor', coalesce(v_claims ->> 'sub', ''), true);
end $$;
