-- Records one firing with its job, or the reason for which it has none. Returns false if the firing
-- was recorded before. Locks the jobs that the overlap policy cancels. Called by fire_schedules.
create or replace function jobforge_private.fire_one(p_tenant_id uuid, p_firing jsonb)
returns boolean
language plpgsql
as $$
declare
    v_trigger uuid := (p_firing ->> 'trigger_id')::uuid;
    v_fire_at timestamptz := (p_firing ->> 'fire_at')::timestamptz;
    v_first uuid := jobforge_private.uuid7();
    v_outcome text := coalesce(p_firing ->> 'outcome', 'enqueued');
    v_reason text := p_firing ->> 'reason';
begin
    if exists (select from jobforge.firings as f
                where f.tenant_id = p_tenant_id and f.trigger_id = v_trigger
                  and f.fire_at = v_fire_at and f.outcome <> 'pending') then
        return false;
    end if;
    if v_outcome = 'enqueued' and p_firing ->> 'kind' = 'schedule' then
        v_reason := jobforge_private.apply_overlap_policy(
            p_tenant_id, v_trigger, p_firing ->> 'overlap');
        if v_reason is not null then
            v_outcome := 'skipped';
        end if;
    end if;
    if v_outcome = 'enqueued' then
        begin
            perform jobforge_private.insert_jobs(
                p_tenant_id, jsonb_build_array(jobforge_private.firing_job(p_firing)), v_first);
        exception
            when sqlstate 'JF008' or sqlstate 'JF009' then
                v_outcome := 'failed';
                v_reason := sqlerrm;
            when sqlstate 'JF010' then
                v_outcome := 'skipped';
                v_reason := sqlerrm;
        end;
    end if;
    insert into jobforge.firings as f (
           tenant_id, trigger_id, fire_at, at, job_id, kind, outcome, reason)
    values (p_tenant_id, v_trigger, v_fire_at, jobforge_private.now(),
            case v_outcome when 'enqueued' then jobforge_private.nth_id(v_first, 1) end,
            p_firing ->> 'kind', v_outcome, left(v_reason, 1000))
    on conflict on constraint firings_happen_once do update
       set at = excluded.at, job_id = excluded.job_id, outcome = excluded.outcome,
           reason = excluded.reason;
    return true;
end $$;
