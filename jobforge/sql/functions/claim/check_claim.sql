-- Checks the arguments of claim_jobs. Raises JF012 outside READ COMMITTED (a cap is counted by a
-- statement that must see what other transactions committed in the meantime) and JF002 for
-- arguments out of range.
create or replace function jobforge_private.check_claim(
    p_worker_id uuid,
    p_queues text[],
    p_limits integer[],
    p_lease_s double precision
) returns void
language plpgsql
as $$
begin
    perform jobforge_private.require_read_committed('claim_jobs');
    if p_worker_id is null then
        perform jobforge_private.refuse('JF002', 'worker_id is required', '{"field": "worker_id"}');
    elsif coalesce(cardinality(p_queues), 0) not between 1 and 100
          or array_position(p_queues, null) is not null then
        perform jobforge_private.refuse('JF002', 'queues must be a list of 1 to 100 queue names',
            '{"field": "queues"}');
    elsif cardinality(p_limits) is distinct from cardinality(p_queues)
          or array_position(p_limits, null) is not null
          or 0 > any (p_limits) or 5000 < any (p_limits) or 0 = all (p_limits)
          or cardinality(p_limits) > 1
             and (select sum(l) from unnest(p_limits) as l) > 5000 then
        perform jobforge_private.refuse('JF002',
            'limits must have one number for each queue, with a sum from 1 to 5000',
            '{"field": "limits"}');
    elsif p_lease_s is null or not p_lease_s between 1 and 3600 then
        perform jobforge_private.refuse('JF002', 'lease_s must be between 1 and 3600',
            '{"field": "lease_s"}');
    end if;
end $$;
