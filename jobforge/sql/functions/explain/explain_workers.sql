-- Explains a waiting job that no live worker serves: whether the queue or the definition is not
-- served, or the command is not allowed. Called by explain_job.
create or replace function jobforge_private.explain_workers(
    p_job jobforge.all_jobs,
    p_now timestamptz
) returns table (code text, message text, remedy text, detail jsonb)
language sql stable
as $$
    select case when c.is_command then 'command_not_allowed'
                when s.queue_served then 'definition_not_served'
                else 'queue_not_served' end,
           case when c.is_command
                then format('No live worker of queue %s allows the command %s@%s.',
                            p_job.queue, p_job.definition, p_job.version)
                when s.queue_served
                then format('No live worker of queue %s serves %s@%s.',
                            p_job.queue, p_job.definition, p_job.version)
                else format('No live worker serves queue %s.', p_job.queue) end,
           case when c.is_command
                then format('Start a worker that has this version and lists %s in '
                            'allowed_commands (JOBFORGE_ALLOWED_COMMANDS=%s).',
                            p_job.definition, p_job.definition)
                when s.queue_served
                then 'Deploy a worker that has this version, or cancel the job.'
                else format('Start a worker with --queues %s.', p_job.queue) end,
           jsonb_build_object('queue', p_job.queue, 'definition', p_job.definition,
                              'version', p_job.version)
      from (select coalesce(bool_or(p_job.queue = any (w.queues)), false) as queue_served,
                   coalesce(bool_or(p_job.queue = any (w.queues) and (w.definitions is null
                       or p_job.definition || '@' || p_job.version = any (w.definitions))),
                       false) as served
              from jobforge.workers as w
             where w.stopped_at is null and w.command is null and w.live_until >= p_now) as s
     cross join lateral (
        select exists (select from jobforge.definitions as d
                        where d.key = p_job.definition and d.version = p_job.version
                          and d.registered -> 'command' = 'true') as is_command) as c
     where not s.served
$$;
