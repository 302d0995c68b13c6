-- Photos and live albums. The lock order is album, photo, task, item.
--
-- Every change that viewers can see takes the album's next number under the album's row lock, so feed numbers are dense and in the
-- order of commits, as a task's are. A photo keeps the number of its last change, also when that change removed it from sight.

create table albums (
  id               uuid primary key,
  workspace_id     uuid not null references workspaces (id),
  name             text not null,
  originals_shared boolean not null default false,  -- may a share link fetch the original files?
  last_seq         bigint not null default 1,        -- 1: created
  last_upload      int not null default 0,           -- the number of the last upload
  created_at       timestamptz not null default now(),
  deleted_at       timestamptz,
  constraint album_name_sane check (length(name) between 1 and 200)
);
create index albums_listing on albums (workspace_id, created_at desc, id desc) where deleted_at is null;

create table photos (
  id                   uuid primary key,
  workspace_id         uuid not null,
  album_id             uuid not null references albums (id),
  upload_number        int not null,                 -- in its album, from 1
  file_name            text not null,                -- as the photographer named it: shown, never a path
  storage_key          text not null,                -- the original
  size_bytes           bigint not null,
  sha256               bytea not null,
  content_type         text not null,
  processing_state     text not null default 'uploaded',
  visibility           text not null default 'unpublished',
  entity_version       int not null default 0,
  requested_generation int not null default 1,        -- the last one that was asked for
  published_generation int not null default 0,        -- of the variants that are there; 0: none
  width                int,                           -- of the upright photo
  height               int,
  captured_at          timestamptz,                   -- EXIF time with its offset, else null
  sort_at              timestamptz not null default now(),  -- captured_at, else the upload's time: the order of an album
  error_code           text,
  published_at         timestamptz,
  created_at           timestamptz not null default now(),
  deleted_at           timestamptz,
  last_seq             bigint not null,
  timeline             jsonb not null default '{}',   -- stage → RFC 3339 time
  constraint photo_upload_once unique (album_id, upload_number),
  constraint photo_original_once unique (storage_key),
  constraint photo_processing_known check (processing_state in ('uploaded', 'ready', 'processing_failed')),
  constraint photo_visibility_known check (visibility in ('unpublished', 'published', 'hidden', 'recalled')),
  constraint photo_ready_has_variants check ((processing_state = 'ready') <= (published_generation > 0 and width > 0 and height > 0)),
  constraint photo_published_is_ready check (visibility <> 'published' or (processing_state = 'ready' and published_at is not null)),
  constraint photo_failed_has_code check (processing_state <> 'processing_failed' or error_code is not null),
  constraint photo_generation_was_asked check (published_generation <= requested_generation)
);
-- The same bytes in the same album are the same photo, until it is deleted.
create unique index photos_content on photos (album_id, sha256) where deleted_at is null;
create index photos_order on photos (album_id, sort_at, upload_number) where deleted_at is null;
create index photos_feed on photos (album_id, last_seq);
create index photos_to_clear on photos (deleted_at) where deleted_at is not null;

create table photo_variants (
  photo_id     uuid not null references photos (id),
  kind         text not null,
  generation   int not null,
  storage_key  text not null,
  file_name    text not null,                         -- in addresses: carries 16 hex digits of the content's SHA-256
  width        int not null,
  height       int not null,
  size_bytes   bigint not null,
  sha256       bytea not null,
  content_type text not null,
  constraint variant_once primary key (photo_id, kind),
  constraint variant_kind_known check (kind in ('thumb', 'browse'))
);

-- The first publication of each photo. Its job in Redis is `process-<photo id>`.
create table photo_jobs (
  photo_id         uuid primary key references photos (id),
  state            text not null default 'pending',
  attempt          int not null default 0,
  attempt_id       bigint,                            -- the fence, from attempt_ids
  worker           text,
  lease_renewed_at timestamptz,
  next_retry_at    timestamptz,
  last_error       text,
  created_at       timestamptz not null default now(),
  finished_at      timestamptz,
  constraint photo_job_state_known check (state in ('pending', 'active', 'done', 'failed')),
  constraint photo_job_active_has_lease check ((state = 'active') = (lease_renewed_at is not null)),
  constraint photo_job_final_has_time check ((finished_at is not null) = (state in ('done', 'failed')))
);
create index photo_jobs_open on photo_jobs (state, next_retry_at) where state in ('pending', 'active');

create table share_links (
  id          uuid primary key,
  album_id    uuid not null references albums (id),
  secret_hash bytea not null,
  created_at  timestamptz not null default now(),
  expires_at  timestamptz,
  revoked_at  timestamptz,
  constraint share_secret_once unique (secret_hash)
);
create index share_links_of_album on share_links (album_id, created_at);

-- Resumable uploads (tus 1.0) that are not complete yet.
create table uploads (
  id             uuid primary key,
  workspace_id   uuid not null references workspaces (id),
  album_id       uuid not null references albums (id),
  file_name      text not null,
  length_bytes   bigint not null,
  received_bytes bigint not null default 0,
  storage_key    text not null,                       -- of the partial file
  photo_id       uuid,                                -- once complete
  created_at     timestamptz not null default now(),
  expires_at     timestamptz not null,
  constraint upload_within_length check (received_bytes between 0 and length_bytes)
);
create index uploads_expired on uploads (expires_at) where photo_id is null;

-- Objects whose rows are gone: their files wait here for seven days before they are removed.
create table object_trash (
  storage_key text primary key,
  reason      text not null,
  trashed_at  timestamptz not null default now(),
  remove_at   timestamptz not null
);
create index object_trash_due on object_trash (remove_at);
