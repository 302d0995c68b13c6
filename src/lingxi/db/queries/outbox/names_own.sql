-- Is what a payload names of this workspace? $1 workspace, $2 photo, $3 album, $4 task, each null when it is not named
select ($2::uuid is null or exists (select from photos p where p.id = $2 and p.workspace_id = $1))
   and ($3::uuid is null or exists (select from albums a where a.id = $3 and a.workspace_id = $1))
   and ($4::uuid is null or exists (select from media_tasks t where t.id = $4 and t.workspace_id = $1))
