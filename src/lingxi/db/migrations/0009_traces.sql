-- The trace in which a task was submitted (or its newest round asked for), or a photo uploaded: written only where tracing is on,
-- read by the dispatcher and by event streams, and of no consequence when it is lost.
create table traces (
  subject     uuid primary key,
  traceparent text not null,
  at          timestamptz not null default now(),
  constraint traceparent_of_version_00 check (traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$')
);
create index traces_age on traces (at);
