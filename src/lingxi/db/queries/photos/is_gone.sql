-- $1 photo: was it deleted or recalled? (Both are final.)
select not exists (select from photos where id = $1 and deleted_at is null and visibility <> 'recalled')
