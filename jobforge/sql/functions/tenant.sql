-- The tenant of this transaction, or null. Policies compare rows with it; null and '' both deny.
create or replace function jobforge.tenant() returns uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select nullif(current_setting('app.tenant_id', true), '')::uuid $$;
