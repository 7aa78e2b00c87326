-- Returns whether has_short_text is true for each payload of an array. Called by enqueue_payloads.
create or replace function jobforge_private.have_short_texts(p_payloads jsonb) returns boolean
language sql stable
as $$
    select not exists (
        select from jsonb_array_elements(p_payloads) as e(payload)
         where case when pg_column_size(e.payload) > 1500
                    then not jobforge_private.has_short_text(e.payload, 2097152) end)
$$;
