-- The tenant of this transaction, or null. Policies compare rows with it; null and '' both deny.
-- PL/pgSQL, because that keeps its plan between calls where a SQL function is parsed anew.
create or replace function jobforge.tenant() returns uuid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return nullif(current_setting('app.tenant_id', true), '')::uuid;
end $$;
