-- Jobs that wait for other jobs, and jobs that belong together: workflows and batches.

-- Which jobs a job was told to wait for. Written when the child is enqueued and never changed: its
-- handler reads its parents here, and people the graph. What is still open, awaited_jobs says.
create table jobforge.dependencies (
    tenant_id uuid not null,
    child_id uuid not null,
    parent_id uuid not null,
    created_at timestamptz not null,
    on_parent_failure text not null,
    constraint dependencies_pkey primary key (tenant_id, child_id, parent_id),
    constraint policies_on_failure_are_known
        check (on_parent_failure in ('cancel', 'run', 'wait'))
);
create index dependencies_of_a_parent on jobforge.dependencies (tenant_id, parent_id);
-- In the order of time as it is, so a summary of each stretch suffices for retention.
create index dependencies_by_age on jobforge.dependencies using brin (created_at);

-- What blocked jobs still wait for: a job is free when it has no row here. The end of a parent
-- takes its rows away, so nothing is counted, and nothing can be counted wrong. `is_within`: both
-- are of one workflow, which therefore goes on when the parent ends.
create table jobforge.awaited_jobs (
    tenant_id uuid not null,
    waiter_id uuid not null,
    job_id uuid not null,
    is_within boolean not null,
    on_parent_failure text not null,
    constraint awaited_jobs_pkey primary key (tenant_id, waiter_id, job_id)
) with (
    -- As jobs: it turns over completely.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 10000
);
create index awaited_jobs_by_job on jobforge.awaited_jobs (tenant_id, job_id);

-- Jobs that belong together. A batch is one whose jobs have no names and do not wait for each
-- other. `live_from` is a place, not a count: its jobs before that one have ended, so the search
-- for one that has not is done once over all. A workflow within another has `parent_id`, and is the
-- node `node` there. `counts` is how many of its jobs ended how, when all had.
create table jobforge.workflows (
    tenant_id uuid not null,
    id uuid not null,
    parent_id uuid,
    created_at timestamptz not null,
    finished_at timestamptz,
    cancel_requested_at timestamptz,
    depth integer not null default 0,
    size integer not null default 0,
    live_from integer not null default 1,
    is_open boolean not null default false,
    kind text not null,
    state text not null default 'running',
    name text,
    node text,
    correlation_id text,
    created_by text not null,
    called text[] not null default '{}',
    callbacks jsonb not null default '{}',
    input jsonb,
    counts jsonb,

    constraint workflows_pkey primary key (tenant_id, id),
    constraint workflow_kinds_are_known check (kind in ('workflow', 'batch')),
    constraint workflow_states_are_known
        check (state in ('running', 'succeeded', 'failed', 'canceled')),
    constraint ended_workflows_have_an_end check ((state = 'running') = (finished_at is null)),
    constraint only_batches_are_open check (not is_open or kind = 'batch' and finished_at is null)
) with (fillfactor = 70);
create index workflows_by_kind on jobforge.workflows (tenant_id, kind, id);
create index workflows_within on jobforge.workflows (tenant_id, parent_id)
    where parent_id is not null;
create index workflows_ended on jobforge.workflows (finished_at) where finished_at is not null;

-- The nodes of a workflow, in their order: each is a job, or a workflow of its own. A node that is
-- retried names its new job.
create table jobforge.workflow_jobs (
    tenant_id uuid not null,
    workflow_id uuid not null,
    job_id uuid,
    inner_id uuid,
    position integer not null,
    name text,
    constraint workflow_jobs_pkey primary key (tenant_id, workflow_id, position),
    constraint nodes_are_jobs_or_workflows check ((job_id is null) <> (inner_id is null))
) with (fillfactor = 90);
create unique index workflow_jobs_have_names on jobforge.workflow_jobs
    (tenant_id, workflow_id, name) where name is not null;
create unique index workflow_jobs_by_job on jobforge.workflow_jobs (tenant_id, job_id)
    where job_id is not null;

-- An edge from a parent to a job that was just inserted: `is_new` if the parent was so by the same
-- call; `state` is the parent's.
create type jobforge.edge as (
    child_id uuid,
    parent_id uuid,
    is_new boolean,
    on_parent_failure text,
    state text
);

-- A node of a workflow or of one within it, as jobforge_private.nodes_of finds it: `path` is its
-- name with those of the workflows that it is in, and `state` that of its job.
create type jobforge.workflow_node as (
    workflow_id uuid,
    job_id uuid,
    place integer[],
    path text,
    state text,
    definition text,
    version integer,
    queue text,
    attempt integer,
    max_attempts integer,
    created_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    result jsonb,
    error jsonb
);
