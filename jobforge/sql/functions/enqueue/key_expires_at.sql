-- Returns when an idempotency key that is reserved at p_now expires; `infinity` if never.
create or replace function jobforge_private.key_expires_at(
    p_mode text,
    p_window_s double precision,
    p_now timestamptz
) returns timestamptz
language sql immutable
as $$
    select coalesce(p_now + case p_mode
               when 'window' then make_interval(secs => p_window_s)
               when 'retained' then interval '30 days' end, 'infinity')
$$;
