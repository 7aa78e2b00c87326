-- Takes p_jobs tokens from the bucket of each rate limit of a group, and returns `taken` with
-- p_jobs added for each of its limits. The caller has locked the limits (lock_limits). Called by
-- pick_group.
create or replace function jobforge_private.take_tokens(
    p_limits jobforge.group_limit[],
    p_jobs integer,
    p_now timestamptz,
    inout taken jsonb
)
language plpgsql
as $$
declare
    v_limit jobforge.group_limit;
begin
    foreach v_limit in array p_limits loop
        taken := taken || jsonb_build_object(
            v_limit.subject, coalesce((taken ->> v_limit.subject)::integer, 0) + p_jobs);
        if v_limit.rate_limit is not null then
            insert into jobforge.rate_limits as b (bucket, tokens, refilled_at)
            values (v_limit.subject, v_limit.rate_burst - p_jobs, p_now)
            on conflict (bucket) do update
               set tokens = jobforge_private.available_tokens(
                       v_limit.subject, v_limit.rate_limit, v_limit.rate_period_s,
                       v_limit.rate_burst, p_now) - p_jobs,
                   refilled_at = greatest(b.refilled_at, p_now);
        end if;
    end loop;
end $$;
