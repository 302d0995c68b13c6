-- Live albums: what uploads, serving and collecting need beyond 0002.

-- The number of the last change of the album itself (its name, what its share links may fetch): told to whoever resumes from before it.
alter table albums add column changed_seq bigint not null default 1;

-- Uploads that can be resumed (tus): each stretch of bytes that has arrived is an object of its own until all are there. One stretch
-- that is the whole file becomes the photo's original as it lies.
alter table uploads
  alter column storage_key drop not null,            -- not used: the bytes lie where upload_parts says
  add column metadata text not null default '',      -- Upload-Metadata as it came
  add column writer uuid,                            -- the request that may append: the last that began; any other is fenced off
  add column photo_created boolean;                  -- was the photo new? once complete
create index uploads_due on uploads (expires_at);

create table upload_parts (
  upload_id    uuid not null references uploads (id),
  offset_bytes bigint not null,
  size_bytes   bigint not null,
  sha256       bytea not null,
  storage_key  text not null,
  constraint upload_part_once primary key (upload_id, offset_bytes),
  constraint upload_part_object_once unique (storage_key),
  constraint upload_part_has_bytes check (size_bytes > 0 and offset_bytes >= 0)
);

-- A deleted album's photos are deleted in steps; it is cleared when none is left.
alter table albums add column cleared_at timestamptz;
create index albums_to_clear on albums (deleted_at) where deleted_at is not null and cleared_at is null;

-- Storage. Media that lie beside our objects are registered by key; one may have several names, in several workspaces, and we never
-- remove its bytes. Operators say below which prefixes a workspace may do so.
alter table objects drop constraint object_key_once;
create unique index object_key_once on objects (storage_key) where storage_key not like 'media:%';
create index photo_variants_key on photo_variants (storage_key);  -- the collector looks up what is still needed

create table workspace_prefixes (
  workspace_id uuid not null references workspaces (id),
  prefix       text not null,                         -- of names in the bucket, to the letter; ends in '/'
  created_at   timestamptz not null default now(),
  constraint workspace_prefix_once primary key (workspace_id, prefix),
  constraint workspace_prefix_sane check (prefix like '_%/' and length(prefix) <= 1000)
);

-- Uploads that go straight to storage by a signed address and are then confirmed; each becomes an object, or a photo of an album.
create table direct_uploads (
  id           uuid primary key,
  workspace_id uuid not null references workspaces (id),
  album_id     uuid references albums (id),           -- null: it becomes an object
  name         text not null,                         -- of the object, or of the photographer's file
  size_bytes   bigint not null,                       -- the signed address takes no other
  sha256       bytea,                                 -- what the client says; a confirmation checks it
  storage_key  text not null,                         -- where it arrives
  photo_id     uuid,                                  -- once confirmed
  confirmed_at timestamptz,
  created_at   timestamptz not null default now(),
  expires_at   timestamptz not null,
  constraint direct_upload_key_once unique (storage_key),
  constraint direct_upload_size_positive check (size_bytes >= 0)
);
create index direct_uploads_due on direct_uploads (expires_at);

-- All files of a deleted or recalled photo are removed, also those that a late attempt leaves: once they are in the trash it is cleared.
-- In the trash a key that ends in '/' stands for all keys below it, without the part that the settings give.
alter table photos add column cleared_at timestamptz;
create index photos_uncleared on photos (id) where cleared_at is null and (deleted_at is not null or visibility = 'recalled');

-- One-time links that sign a browser in, in the name of a token. Used ones are deleted.
create table sign_in_links (
  secret_hash bytea primary key,
  token_id    uuid not null references tokens (id),
  expires_at  timestamptz not null
);
create index sign_in_links_expired on sign_in_links (expires_at);
