-- Applications call this inside their own transaction: the jobs exist if it commits. p_jobs is an
-- array of objects; docs/sql.md lists their fields. One row per element, in order:
--   created   a new job           existing  the job that holds the idempotency key
--   replaced  that job had not started and now has the new content
-- All or nothing: JF001, JF002 (with field and index), JF006, JF007, JF008, JF009, JF010, JF011.
-- Waits only for a transaction that is enqueuing the same idempotency key.
create or replace function jobforge.enqueue_jobs(p_jobs jsonb, p_tenant_id uuid default null)
returns table (index integer, job_id uuid, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge.require_tenant(p_tenant_id);
    v_first_id uuid := jobforge.uuid7();
    v_held integer[] := '{}';
    v_key record;
begin
    perform jobforge.check_jobs(p_jobs);

    -- Keys are taken in one order by everybody, so that two batches cannot deadlock.
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
        select r.job_id, r.status into job_id, status
          from jobforge.reserve_key(
                   v_tenant, split_part(v_key.definition, '@', 1), v_key.key,
                   coalesce(v_key.key_mode, 'retained'), v_key.key_window_s,
                   jobforge.nth_id(v_first_id, v_key.index), coalesce(v_key.payload, '{}')) as r;
        continue when status = 'created';
        if v_key.on_conflict = 'raise' then
            perform jobforge.refuse('JF011', 'a job with this idempotency key exists',
                jsonb_build_object('job_id', job_id, 'key', v_key.key, 'index', v_key.index - 1));
        elsif v_key.on_conflict = 'replace'
              and jobforge.replace_job(v_tenant, job_id, p_jobs -> (v_key.index - 1)::integer) then
            status := 'replaced';
        end if;
        index := v_key.index - 1;
        v_held := v_held || v_key.index::integer;
        return next;
    end loop;

    perform jobforge.insert_jobs(v_tenant, p_jobs, v_first_id, v_held);
    return query
    select i - 1, jobforge.nth_id(v_first_id, i), 'created'
      from generate_series(1, jsonb_array_length(p_jobs)) as i
     where i <> all (v_held);
end $$;
