-- Returns the secrets of a configuration as lists show them: where each comes from, never its
-- value. Called by list_connector_configs and get_connector_config.
create or replace function jobforge_private.mask_secrets(p_secrets jsonb) returns jsonb
language sql stable
as $$
    select case when jobforge_private.is_bounded(p_secrets, 16777216) then (
                    select coalesce(
                               jsonb_object_agg(s.key, coalesce(s.value ->> 'from', 'sealed')),
                               '{}')
                      from jsonb_each(p_secrets) as s)
                else jobforge_private.readable(p_secrets) end
$$;
