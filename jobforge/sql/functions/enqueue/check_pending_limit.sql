-- Refuses an enqueue that would exceed a tenant's pending limit. The new jobs get IDs from
-- p_first_id on. A limit up to 10,000 is exact. If a tenant has more than 10,000 jobs, as a rule
-- dead ones, the newest 10,000 are counted each time; the count of the others is remembered in this
-- session for five seconds, or for twenty times as long as it took, a minute at most. Under a limit
-- above 10,000, the session remembers all that it counted, and counts only jobs with later IDs.
-- Counts committed rows and those of this transaction; two open transactions do not see each
-- other's jobs. The stored count is signed, because every login can change the settings of its
-- session; an older count that a login restores only makes the session count more jobs. Called by
-- insert_jobs and insert_payloads. Raises JF008 with the number of pending jobs.
create or replace function jobforge_private.check_pending_limit(
    p_tenant_id uuid,
    p_limit integer,
    p_more integer,
    p_first_id uuid
) returns void
language plpgsql
as $$
declare
    v_none constant uuid := '00000000-0000-0000-0000-000000000000';
    v_first uuid := jobforge_private.nth_id(p_first_id, 0);
    v_at bigint := 1000 * extract(epoch from clock_timestamp());
    -- 64 settings, because one session serves many tenants.
    v_setting text := 'jobforge.pending_' || (get_byte(uuid_send(p_tenant_id), 15) & 63);
    v_kept text[] := string_to_array(current_setting(v_setting, true), ' ');
    v_until bigint;  -- in ms, like v_at
    v_before uuid;  -- jobs with lower IDs are in the remembered count
    v_old bigint;
    v_newer record;
begin
    if v_kept[1] = p_tenant_id::text
       and v_kept[5] = jobforge_private.sign(array_to_string(v_kept[:4], ' ')) then
        v_until := v_kept[2]::bigint;
        v_before := v_kept[3]::uuid;
        v_old := v_kept[4]::bigint;
    end if;
    if v_until is null or v_until not between v_at and v_at + 60000 or v_before > v_first then
        v_before := case when p_limit > 10000 then v_first else coalesce((
            select j.id from jobforge.jobs as j
             where j.tenant_id = p_tenant_id
             order by j.id desc
            offset 10000 limit 1), v_none) end;
        select count(*) into v_old from (
            select from jobforge.jobs as j
             where j.tenant_id = p_tenant_id and j.id < v_before
               and j.state in ('scheduled', 'blocked', 'queued')
             limit p_limit + 1::bigint) as pending;
        v_until := 1000 * extract(epoch from clock_timestamp());
        v_until := v_until + least(60000, greatest(5000, 20 * (v_until - v_at)));
    end if;
    select count(*) as number, count(*) filter (where p.id < v_first) as earlier into v_newer from (
        select j.id from jobforge.jobs as j
         where j.tenant_id = p_tenant_id and j.id >= v_before
           and j.state in ('scheduled', 'blocked', 'queued')
         limit p_limit + 1::bigint) as p;
    if v_old + v_newer.number + p_more > p_limit then
        perform jobforge_private.refuse('JF008',
            format('the tenant has %s pending jobs of %s allowed', v_old + v_newer.number, p_limit),
            jsonb_build_object('depth', v_old + v_newer.number, 'limit', p_limit));
    end if;
    if p_limit > 10000 then
        v_old := v_old + v_newer.earlier;
        v_before := v_first;
    end if;
    if v_before > v_none then
        v_kept := array[p_tenant_id::text, v_until::text, v_before::text, v_old::text];
        perform set_config(v_setting,
            array_to_string(v_kept || jobforge_private.sign(array_to_string(v_kept, ' ')), ' '),
            false);
    end if;
end $$;
