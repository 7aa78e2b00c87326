-- The server calls this for a request with an Idempotency-Key: enqueue_jobs, and for 24 hours the
-- same response (`replayed`) to the same key and body, without enqueuing anything. p_body_hash is
-- the SHA-256 of the body. A request that was refused is not remembered. Waits for an open request
-- with the same key. Raises what enqueue_jobs raises, and JF013 (the key was used with another
-- body).
create or replace function jobforge.enqueue_jobs_once(
    p_request_key text,
    p_body_hash bytea,
    p_jobs jsonb,
    p_tenant_id uuid default null
) returns table (index integer, job_id uuid, status text, replayed boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_answered jobforge.idempotent_requests;
begin
    perform jobforge_private.check_name('request_key', p_request_key, 255);
    if octet_length(p_body_hash) is distinct from 32 then
        perform jobforge_private.refuse('JF002', 'body_hash must be a SHA-256 hash',
            '{"field": "body_hash"}');
    end if;
    v_answered := jobforge_private.reserve_request(v_tenant, p_request_key, p_body_hash);
    if v_answered.body_hash <> p_body_hash then
        perform jobforge_private.refuse('JF013',
            'The idempotency key was already used for a different request',
            jsonb_build_object('request_key', p_request_key));
    elsif v_answered.key is not null then
        return query
        select a.index::integer - 1, a.job_id, a.status, true
          from unnest(v_answered.job_ids, v_answered.statuses)
               with ordinality as a(job_id, status, index)
         order by a.index;
        return;
    end if;
    update jobforge.idempotent_requests as r
       set job_ids = e.job_ids, statuses = e.statuses
      from (select coalesce(array_agg(n.job_id order by n.index), '{}') as job_ids,
                   coalesce(array_agg(n.status order by n.index), '{}') as statuses
              from jobforge.enqueue_jobs(p_jobs, p_tenant_id) as n) as e
     where r.tenant_id = v_tenant and r.key = p_request_key
    returning r.job_ids, r.statuses into v_answered.job_ids, v_answered.statuses;
    return query
    select a.index::integer - 1, a.job_id, a.status, false
      from unnest(v_answered.job_ids, v_answered.statuses)
           with ordinality as a(job_id, status, index)
     order by a.index;
end $$;
