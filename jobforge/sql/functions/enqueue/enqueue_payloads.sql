-- Applications call this to enqueue jobs of one definition that differ only in their payloads, also
-- a single job: has the effect of enqueue_jobs in less than two thirds of its time. p_options are
-- the other fields of a job, except keys and parents, which belong to one job. Returns the ID of
-- the first job; the others follow as nth_id counts. Returns null without payloads. Inserts all
-- jobs or none. Takes no locks. Raises JF001, JF002 (with field and index), JF006 to JF010, JF014.
--
-- Jobs without a limit, and without options except version and created_by, are inserted by a short
-- path. Any other call, and every invalid one, takes the general path, which reports errors.
create or replace function jobforge.enqueue_payloads(
    p_definition text,
    p_payloads jsonb,
    p_options jsonb default '{}',
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
    v_tenant uuid := jobforge_private.resolve_tenant(p_tenant_id);
    v_now timestamptz := jobforge_private.now();
    v_first_id uuid;
    v_version integer;
    v_queue text;
    v_max_attempts integer;
    v_flags smallint;
    v_is_plain boolean;
    v_is_awake boolean;
begin
    select d.version, d.queue, d.max_attempts, d.hooks::integer,
           -- No options but version and created_by:
           jsonb_typeof(p_options) = 'object'
           and p_options - '{version,created_by}'::text[] = '{}'
           and coalesce(jsonb_typeof(p_options -> 'created_by'), 'string') = 'string'
           and length(coalesce(p_options ->> 'created_by', '')) <= 255
           -- Payloads that check_payloads accepts:
           and p_payloads <> '[]' and jsonb_typeof(p_payloads) = 'array'
           and not jsonb_path_exists(p_payloads, 'strict $[*] ? (@.type() != "object")')
           -- `#> '{}'` and 500 bytes: see docs/query-plans.md, "Sizes of JSON values".
           and (pg_column_size(p_payloads #> '{}') <= 500
                or pg_column_size(p_payloads #> '{}') <= 262144
                   and not jsonb_path_exists(p_payloads, 'strict $.**{66 to last}'))
           -- The check of is_bounded, once for all payloads.
           and not jsonb_path_exists(p_payloads, 'strict $.** ? (@.abs() >= 1e309)')
           and (pg_column_size(p_payloads #> '{}') <= 1500
                or jobforge_private.have_short_texts(p_payloads))
           -- No limit, neither of the definition, nor of the tenant or queue:
           and d.paused_at is null and d.max_running is null and d.max_running_per_key is null
           and d.rate_limit is null and d.rate_limit_per_key is null
           and not exists (
               select from jobforge.tenants as t
                where t.id = v_tenant
                  and (t.max_pending is not null or t.max_running is not null
                       or t.rate_limit is not null or t.paused_at is not null
                       or t.erased_at is not null))
           and not exists (
               select from jobforge.queues as q
                where q.name = d.queue
                  and (q.max_running is not null or q.rate_limit is not null)),
           -- The check of notify_queue, without another statement.
           exists (
               select from jobforge_private.recently_ready_jobs(
                               d.queue, v_tenant, 0::smallint, v_now))
      into v_version, v_queue, v_max_attempts, v_flags, v_is_plain, v_is_awake
      from jobforge.definitions as d
     where d.key = p_definition and d.is_active
       and (d.version::text = (p_options -> 'version')::text or not p_options ? 'version')
     order by d.version desc
     limit 1;
    if v_is_plain then
        if not v_is_awake then
            perform jobforge_private.notify_channel('jobforge:' || v_queue);
        end if;
        v_first_id := jobforge_private.uuid7();
        if p_payloads -> 1 is null then
            insert into jobforge.jobs (
                   tenant_id, id, created_at, run_at, queued_at, version, max_attempts, allowance,
                   flags, state, definition, queue, created_by, payload)
            values (v_tenant, v_first_id, v_now, v_now, v_now, v_version, v_max_attempts,
                    v_max_attempts, v_flags, 'queued', p_definition, v_queue,
                    p_options ->> 'created_by', p_payloads -> 0);
            return v_first_id;
        end if;
        perform jobforge_private.insert_plain_jobs(
            v_tenant, p_payloads, v_first_id, v_now, p_definition, v_version, v_queue,
            v_max_attempts, v_flags, p_options ->> 'created_by');
        return jobforge_private.nth_id(v_first_id, 1);
    end if;
    perform jobforge_private.check_payloads(p_definition, p_payloads, p_options);
    if p_payloads = '[]' then
        return null;
    end if;
    return jobforge_private.insert_payloads(v_tenant, p_definition, p_payloads, p_options);
end $$;
