-- Refuses a caller that acts for a tenant. Called by functions that return data of the whole
-- installation. Raises JF006.
create or replace function jobforge_private.require_no_tenant() returns void
language plpgsql stable
as $$
begin
    if jobforge.tenant() is not null then
        perform jobforge_private.refuse('JF006',
            'This is not available while app.tenant_id is set');
    end if;
end $$;
