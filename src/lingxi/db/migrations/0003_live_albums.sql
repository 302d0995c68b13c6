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
