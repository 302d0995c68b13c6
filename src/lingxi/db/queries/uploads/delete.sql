-- $1 upload, once its parts are gone
delete from uploads where id = $1
