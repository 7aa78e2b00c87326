-- For functions that tell of the whole installation: refuses whoever acts for a tenant. Raises
-- JF006.
create or replace function jobforge_private.require_no_tenant() returns void
language plpgsql stable
as $$
begin
    if jobforge.tenant() is not null then
        perform jobforge_private.refuse('JF006', 'this is told of all tenants together only');
    end if;
end $$;
