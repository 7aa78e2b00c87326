-- Refuses a payload that is too large for a row, with its index in the call. Called by
-- check_payloads, check_job and check_jobs. Raises JF007.
create or replace function jobforge_private.refuse_large_payload(p_index integer) returns void
language plpgsql
as $$
begin
    perform jobforge_private.refuse('JF007', 'The payload is larger than 256 KiB',
        jsonb_build_object('field', 'payload', 'index', p_index, 'limit', 262144),
        'Store the data elsewhere and enqueue a reference to it. The Python API and the HTTP API '
        'store large payloads in an artifact store, which TypeScript handlers cannot read');
end $$;
