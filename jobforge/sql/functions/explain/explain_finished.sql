-- Explains a finished or dead job. Called by explain_job.
create or replace function jobforge_private.explain_finished(p_job jobforge.all_jobs)
returns table (code text, message text, remedy text, detail jsonb)
language sql stable
as $$
    select p_job.state,
           case p_job.state
               when 'succeeded' then format('Succeeded at %s on attempt %s.', p_job.finished_at,
                                            p_job.attempt)
               when 'canceled' then format('Canceled at %s: %s.', p_job.finished_at,
                                           coalesce(p_job.cancel_reason, 'no reason given'))
               else format('Dead since %s, after attempt %s of %s: %s.', p_job.finished_at,
                           p_job.attempt, p_job.max_attempts,
                           coalesce(e.error ->> 'message', 'no message'))
           end,
           case p_job.state when 'dead' then 'Fix the cause, then retry the job.'
                            else 'Retry the job to run it again as a new job.' end,
           jsonb_build_object('finished_at', p_job.finished_at, 'error', e.error)
      from (select jobforge_private.readable(p_job.error) as error) as e
$$;
