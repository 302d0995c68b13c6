-- Fingerprints of photos, for near-duplicates and bursts.
--
-- Two hashes of 64 bits that differ in at most 7 have, of their four bands of 16 bits, at least one that differs in at most one bit. So
-- 4 x 17 values of the bands' indexes find every near hash of an album, and few others.

create table photo_fingerprints (
  photo_id        uuid primary key references photos (id),
  album_id        uuid not null references albums (id),
  generation      int not null,                        -- of the photo's pictures when it was taken; 0: it had none yet
  perceptual_hash bigint,                              -- null: nothing can be made out
  difference_hash bigint,
  band_0          int generated always as ((perceptual_hash >> 48 & 65535)::int) stored,
  band_1          int generated always as ((perceptual_hash >> 32 & 65535)::int) stored,
  band_2          int generated always as ((perceptual_hash >> 16 & 65535)::int) stored,
  band_3          int generated always as ((perceptual_hash & 65535)::int) stored,
  thumb_hash      bytea not null,
  sharpness       real not null,
  width           int not null,                        -- of the upright original
  height          int not null,
  camera          text,                                -- make and model
  captured_local  timestamp,                           -- the camera's own clock
  fingerprinted_at timestamptz not null default now(),
  constraint fingerprint_both_hashes check ((perceptual_hash is null) = (difference_hash is null))
);
create index photo_fingerprints_band_0 on photo_fingerprints (album_id, band_0);
create index photo_fingerprints_band_1 on photo_fingerprints (album_id, band_1);
create index photo_fingerprints_band_2 on photo_fingerprints (album_id, band_2);
create index photo_fingerprints_band_3 on photo_fingerprints (album_id, band_3);
create index photo_fingerprints_camera on photo_fingerprints (album_id, camera, captured_local) where camera is not null;

-- Pairs that belong together, of one album; the later id is the second.
create table photo_pairs (
  first_id  uuid not null references photos (id),
  second_id uuid not null references photos (id),
  album_id  uuid not null references albums (id),
  distance  int not null,                              -- bits in which the perceptual hashes differ
  is_near   boolean not null,
  is_burst  boolean not null,
  constraint photo_pair_once primary key (first_id, second_id),
  constraint photo_pair_ordered check (first_id < second_id),
  constraint photo_pair_has_reason check (is_near or is_burst)
);
create index photo_pairs_second on photo_pairs (second_id);
create index photo_pairs_album on photo_pairs (album_id);
