-- Reserves the idempotency keys of an enqueue for its jobs. Returns the elements that are not to be
-- inserted because another job holds their key (counted from 1): that job, and whether it has the
-- new content. Called by enqueue_jobs and its variants. Locks keys in order of definition and key,
-- then the jobs that it replaces in order of ID, blocked ones last. Raises JF011 if on_conflict is
-- raise, and JF002.
create or replace function jobforge_private.reserve_keys(
    p_tenant_id uuid,
    p_jobs jsonb,
    p_first_id uuid
) returns table (index integer, job_id uuid, status text)
language plpgsql
as $$
declare
    v_key record;
    v_is_same boolean;
    v_replaced integer[] := '{}';
    v_holders uuid[] := '{}';
begin
    -- All calls reserve keys in the same order, so that two calls cannot deadlock.
    for v_key in
        select g.*
          from rows from (jsonb_to_recordset(p_jobs) as (
                   definition text, key text, key_mode text, key_window_s double precision,
                   on_conflict text, payload jsonb))
               with ordinality as g(
                   definition, key, key_mode, key_window_s, on_conflict, payload, index)
         where g.key is not null
         order by split_part(g.definition, '@', 1), g.key, g.index
    loop
        index := v_key.index;
        select r.job_id, r.status, r.is_same into job_id, status, v_is_same
          from jobforge_private.reserve_key(
                   p_tenant_id, split_part(v_key.definition, '@', 1), v_key.key,
                   coalesce(v_key.key_mode, 'retained'), v_key.key_window_s,
                   jobforge_private.nth_id(p_first_id, v_key.index),
                   coalesce(v_key.payload, '{}')) as r;
        continue when status = 'created';
        if v_key.on_conflict = 'raise' then
            perform jobforge_private.refuse('JF011',
                'A job with this idempotency key already exists',
                jsonb_build_object('job_id', job_id, 'key', v_key.key, 'index', index - 1,
                                   'same_payload', v_is_same));
        elsif v_key.on_conflict = 'replace' then
            if jobforge_private.is_same_call(job_id, p_first_id) then
                perform jobforge_private.refuse('JF002',
                    'key occurs twice in one call with on_conflict = replace',
                    jsonb_build_object('field', 'key', 'index', index - 1));
            end if;
            v_replaced := v_replaced || index;
            v_holders := v_holders || job_id;
            continue;
        end if;
        return next;
    end loop;
    for index, job_id in
        select r.index, r.job_id
          from unnest(v_replaced, v_holders) as r(index, job_id)
          left join jobforge.jobs as j on j.tenant_id = p_tenant_id and j.id = r.job_id
         order by j.state || '' = 'blocked', r.job_id, r.index
    loop
        status := 'existing';
        if jobforge_private.replace_job(p_tenant_id, job_id, p_jobs -> index - 1) then
            status := 'replaced';
            perform jobforge_private.renew_key(p_tenant_id, p_jobs -> index - 1);
        end if;
        return next;
    end loop;
end $$;
