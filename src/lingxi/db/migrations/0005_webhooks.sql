-- Webhook endpoints and what was delivered to them.
--
-- Lock order: an endpoint, then its deliveries, then tasks and items as always.

create table webhook_endpoints (
  id              uuid primary key,
  workspace_id    uuid not null references workspaces (id),
  url             text not null,
  events          text[] not null,           -- types that it wants
  description     text not null default '',
  secret          text not null,             -- whsec_…: it signs, so it has to be readable
  previous_secret text,                      -- signs beside it until previous_until
  previous_until  timestamptz,
  enabled         boolean not null default true,
  disabled_at     timestamptz,
  disabled_reason text,
  failures        int not null default 0,    -- attempts that failed since the last success
  failing_since   timestamptz,               -- the first of them
  created_at      timestamptz not null default clock_timestamp(),
  constraint webhook_url_sane check (length(url) between 1 and 2000),
  constraint webhook_events_some check (cardinality(events) between 1 and 20),
  constraint webhook_previous_has_end check ((previous_secret is null) = (previous_until is null)),
  constraint webhook_disabled_has_reason check (enabled = (disabled_at is null) and enabled = (disabled_reason is null)),
  constraint webhook_disabled_reason_known check (disabled_reason in ('asked', 'gone', 'failing')),
  constraint webhook_failing_has_start check ((failures = 0) = (failing_since is null))
);
create index webhook_endpoints_of_workspace on webhook_endpoints (workspace_id, created_at, id);

-- An event that somebody wants: what is sent, byte by byte, however often it is sent.
create table webhook_events (
  id           uuid primary key,             -- the header webhook-id
  workspace_id uuid not null references workspaces (id),
  outbox_id    bigint not null,
  type         text not null,
  body         text not null,
  created_at   timestamptz not null default clock_timestamp(),
  constraint webhook_event_once unique (outbox_id)
);
create index webhook_events_age on webhook_events (created_at);

-- One event for one endpoint. Its state is that of its item; without one it was missed: the endpoint was disabled.
create table webhook_deliveries (
  endpoint_id     uuid not null references webhook_endpoints (id) on delete cascade,
  event_id        uuid not null references webhook_events (id) on delete cascade,
  task_id         uuid,
  position        int,
  attempts        int not null default 0,    -- requests that were answered or failed, over all rounds and replays
  last_attempt_at timestamptz,
  duration_ms     int,
  response_status int,
  response_body   text,                      -- the first 2 kB
  error_code      text,
  delivered_at    timestamptz,
  created_at      timestamptz not null default clock_timestamp(),
  constraint webhook_delivery_once primary key (endpoint_id, event_id),
  constraint webhook_delivery_item check ((task_id is null) = (position is null))
);
create index webhook_deliveries_listing on webhook_deliveries (endpoint_id, created_at desc, event_id desc);
create index webhook_deliveries_of_event on webhook_deliveries (event_id);

-- Tasks that deliver are left out of a workspace's list unless they are asked for: it must not read past all of them.
create index media_tasks_listing_own on media_tasks (workspace_id, created_at desc, id desc) where type <> 'webhook:deliver';
