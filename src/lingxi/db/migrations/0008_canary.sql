-- Is the work done? Canaries through the queues, and rounds of a few failed items before the rest.

-- ── canaries: a job without an item, which a worker answers here ─────────────────────────────────────────
-- A row a queue: the last one that was sent. It belongs to no workspace and is counted nowhere else.
create table canaries (
  queue              text primary key,
  number             bigint not null default 1,   -- of the last one; the job's id has it
  waiting_since      timestamptz,                 -- since the first one that was not answered was sent; null: answered, or withdrawn
  sent_at            timestamptz,                 -- the last one
  answered_at        timestamptz,
  answered_by        text,                        -- name and boot of the worker's process
  round_trip_seconds float8                       -- of the last one that was answered
);
