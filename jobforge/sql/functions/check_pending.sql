-- Refuses an enqueue that would take a tenant past its pending limit (JF008, with the depth).
-- A limit up to 10,000 is exact. Of a tenant with more jobs than that, as a rule dead ones, the
-- newest 10,000 are counted each time, and what this session has found behind them holds for five
-- seconds, or for twenty times as long as it took, a minute at most. Under a limit above 10,000
-- that is so for all of them, and what it has enqueued since is added. Committed rows and those of
-- this transaction count; two transactions in flight do not see each other.
create or replace function jobforge.check_pending(
    p_tenant_id uuid,
    p_limit integer,
    p_more integer
) returns void
language plpgsql
as $$
declare
    v_none constant uuid := '00000000-0000-0000-0000-000000000000';
    v_all constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    v_at double precision := extract(epoch from clock_timestamp());
    -- A server works for many tenants: some of them have a place of their own.
    v_place text := 'jobforge.pending_' || (get_byte(uuid_send(p_tenant_id), 15) & 63);
    v_kept text[] := string_to_array(current_setting(v_place, true), ' ');
    v_until double precision;
    v_before uuid;  -- up to which id a count is kept
    v_old bigint;
    v_depth bigint;
begin
    if v_kept[1] = p_tenant_id::text then
        begin
            v_until := v_kept[2]::double precision;
            v_before := v_kept[3]::uuid;
            v_old := v_kept[4]::bigint;
        exception
            -- Another release wrote it in another form: the jobs are counted again.
            when data_exception then null;
        end;
    end if;
    if v_until is null or v_before is null or v_old is null
       or v_until not between v_at and v_at + 60 then
        v_before := case when p_limit > 10000 then v_all else coalesce((
            select j.id from jobforge.jobs as j
             where j.tenant_id = p_tenant_id
             order by j.id desc
            offset 10000 limit 1), v_none) end;
        select count(*) into v_old from (
            select from jobforge.jobs as j
             where j.tenant_id = p_tenant_id and j.id < v_before
               and j.state in ('scheduled', 'blocked', 'queued')
             limit p_limit + 1::bigint) as pending;
        v_until := extract(epoch from clock_timestamp());
        v_until := v_until + least(60, greatest(5, 20 * (v_until - v_at)));
    end if;
    select v_old + count(*) into v_depth from (
        select from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.id >= v_before
           and j.state in ('scheduled', 'blocked', 'queued')
         limit p_limit + 1::bigint) as pending;
    if v_depth + p_more > p_limit then
        perform jobforge.refuse('JF008',
            format('the tenant has %s pending jobs of %s allowed', v_depth, p_limit),
            jsonb_build_object('depth', v_depth, 'limit', p_limit));
    end if;
    if v_before > v_none then
        perform set_config(v_place, concat_ws(' ', p_tenant_id, v_until, v_before,
            v_old + case v_before when v_all then p_more else 0 end), false);
    end if;
end $$;
