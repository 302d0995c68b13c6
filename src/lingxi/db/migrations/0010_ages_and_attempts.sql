-- Since when an object is kept: since it was put, and anew when it is put again with the same bytes. By this it ages, where objects have
-- a retention. Objects that were there before count from this migration.
alter table objects add column kept_from timestamptz not null default now();
create index objects_age on objects (kept_from);

-- The history of a photo's first publication, as media_task_attempts is that of items. An older version's worker leaves none.
create table photo_attempts (
  id          bigint primary key,         -- the fence that it had
  photo_id    uuid not null,
  round       int not null,               -- a photo that had failed and is uploaded again begins another one
  number      int not null,
  worker      text,
  started_at  timestamptz not null,
  finished_at timestamptz not null,
  outcome     text not null,
  error_code  text,
  log_lines   jsonb,
  constraint photo_attempt_outcome_known check (outcome in ('succeeded', 'failed', 'retrying', 'released', 'lost'))
);
create index photo_attempts_of_photo on photo_attempts (photo_id);
alter table photo_jobs add column round int not null default 1, add column started_at timestamptz;
