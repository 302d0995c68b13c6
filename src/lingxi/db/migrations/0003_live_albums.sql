-- Live albums: what uploads, serving and collecting need beyond 0002.

-- The number of the last change of the album itself (its name, what its share links may fetch): told to whoever resumes from before it.
alter table albums add column changed_seq bigint not null default 1;
