-- Returns whether p_definitions (key@version) includes all registered definitions. Called by
-- claim_jobs, which stores the result in the session.
create or replace function jobforge_private.serves_all(p_definitions text[]) returns boolean
language plpgsql
as $$
begin
    return not exists (
        select d.key || '@' || d.version from jobforge.definitions as d
        except
        select n from unnest(p_definitions) as n);
end $$;
