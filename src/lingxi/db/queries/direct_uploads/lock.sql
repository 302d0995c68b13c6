-- $1 id: no other confirmation of it commits before this transaction ends
select confirmed_at from direct_uploads where id = $1 for update
