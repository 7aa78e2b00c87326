-- The tables of webhooks: where a tenant wants to hear of its jobs, and what was sent there. Rows
-- are written by the functions only.

-- Endpoints. The secrets are sealed before they come here; during a rotation two of them sign.
-- `failing_since` is when the failures began that no success has followed.
create table jobforge.webhook_endpoints (
    tenant_id uuid not null,
    id uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    disabled_at timestamptz,
    failing_since timestamptz,
    previous_secret_until timestamptz,
    enabled boolean not null default true,
    url text not null,
    description text,
    disabled_reason text,
    created_by text not null,
    secret bytea not null,
    previous_secret bytea,
    events text[] not null,
    definitions text[],

    constraint webhook_endpoints_pkey primary key (tenant_id, id),
    constraint webhook_endpoints_want_known_events
        check (cardinality(events) > 0
           and events <@ '{start,success,failure,dead,end}'::text[]),
    constraint disabled_webhook_endpoints_say_when_and_why
        check (enabled = (disabled_at is null) and enabled = (disabled_reason is null)),
    constraint previous_webhook_secrets_have_an_end
        check ((previous_secret is null) = (previous_secret_until is null))
);
-- Most tenants have none: settles and claims ask these whether they must look further.
create index webhook_endpoints_listening on jobforge.webhook_endpoints (tenant_id)
    where enabled;
create index webhook_endpoints_wanting_starts on jobforge.webhook_endpoints (tenant_id)
    where enabled and 'start' = any (events);

-- Messages: one for each endpoint that wanted to hear of something. `id` is what the receiver knows
-- the message by, however often it is sent; `job_id` is the job that sends it, the newest one;
-- `subject_id` is the job that it tells of, which a test has not. The rest is of the last attempt.
create table jobforge.webhook_deliveries (
    tenant_id uuid not null,
    endpoint_id uuid not null,
    id uuid not null,
    job_id uuid,
    subject_id uuid,
    created_at timestamptz not null,
    attempted_at timestamptz,
    delivered_at timestamptz,
    attempts integer not null default 0,
    status integer,
    event text not null,
    error text,
    response text,
    message jsonb not null,
    constraint webhook_deliveries_pkey primary key (tenant_id, endpoint_id, id, created_at)
) partition by range (created_at);
create table jobforge.webhook_deliveries_default partition of jobforge.webhook_deliveries default;

-- A message that is about to be sent to one endpoint.
create type jobforge.webhook_message as (
    tenant_id uuid,
    endpoint_id uuid,
    subject_id uuid,
    event text,
    correlation_id text,
    traceparent text,
    message jsonb
);
