-- $1 album: first in the order of locks.
select id, deleted_at is not null as deleted from albums where id = $1 for no key update
