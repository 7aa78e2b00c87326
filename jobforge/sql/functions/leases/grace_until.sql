-- Returns until when the reaper waits for a worker to report after an outage, or null if it does
-- not wait. A lease that expired before the end of the outage is extended by its own length.
-- Workers extend a lease before half of it is over, so a shorter outage ends no lease of a live
-- worker. Called by find_lost_leases and explain_running.
create or replace function jobforge_private.grace_until(
    p_expires_at timestamptz,
    p_lease interval,
    p_outage_from timestamptz,
    p_outage_until timestamptz
) returns timestamptz
language sql immutable
as $$
    select case when p_expires_at <= p_outage_until
                 and p_outage_until - p_outage_from >= p_lease / 2
                then p_outage_until + p_lease end
$$;
