-- Raises an error with a private SQLSTATE, one sentence, and details as JSON; p_hint says how to
-- fix the call if the sentence does not. All functions refuse by this function.
--   JF001 tenant required    JF002 invalid          JF003 lease lost       JF004 not found
--   JF005 conflict           JF006 denied           JF007 payload too large
--   JF008 tenant queue full  JF009 unknown definition  JF010 definition inactive
--   JF011 duplicate key      JF012 wrong isolation level
--   JF013 idempotency key reused   JF014 tenant erased   JF015 secrets required
-- JF099 is not an error: functions raise and catch it to release their locks and start again.
create or replace function jobforge_private.refuse(
    p_code text,
    p_message text,
    p_detail jsonb default '{}',
    p_hint text default null
) returns void
language plpgsql
as $$
begin
    if p_hint is null then
        raise exception using errcode = p_code, message = p_message, detail = p_detail::text;
    end if;
    raise exception using errcode = p_code, message = p_message, detail = p_detail::text,
        hint = p_hint;
end $$;
