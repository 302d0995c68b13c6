-- What is to be removed now, longest due first; two collectors take different ones. $1 limit
select storage_key, reason from object_trash where remove_at <= clock_timestamp() order by remove_at limit $1 for update skip locked
